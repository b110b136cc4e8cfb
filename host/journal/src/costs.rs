//! Encodes costs of offerings that no component gives again, numbers exactly.

/// The bytes of costs, one for each offering.
pub fn write(costs: &[f64]) -> Vec<u8> {
    let bits = costs.iter().map(|cost| cost.to_bits());
    bits.flat_map(u64::to_le_bytes).collect()
}

/// Reads what [`write()`] wrote.
///
/// # Errors
/// It is something else, in words.
pub fn read(bytes: &[u8]) -> Result<Vec<f64>, String> {
    let (numbers, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(format!(
            "the costs in it make no sense: {} bytes",
            bytes.len()
        ));
    }
    let bits = numbers.iter().map(|number| u64::from_le_bytes(*number));
    Ok(bits.map(f64::from_bits).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_come_back_to_the_last_bit() {
        let costs = [0.1 + 0.2, f64::INFINITY, 0.0, 1.0 / 3.0];
        let bytes = write(&costs);
        assert_eq!(read(&bytes).unwrap(), costs);
        assert!(read(&bytes[1..]).unwrap_err().ends_with("31 bytes"));
    }
}
