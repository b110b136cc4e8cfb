//! Amounts of resources in the notation of manifests.

use std::collections::BTreeMap;

use longshore_core::model::{ResourceId, Symbols};

/// An amount in the unit of its resource: `1500m`, `2Gi`, `3`.
pub fn amount(resource: ResourceId, value: i64) -> String {
    match resource {
        ResourceId::Cpu if value % 1000 == 0 => format!("{}", value / 1000),
        ResourceId::Cpu => format!("{value}m"),
        ResourceId::Memory | ResourceId::EphemeralStorage => size(value),
        ResourceId::Pods | ResourceId::Other(_) => value.to_string(),
    }
}

/// Two amounts of a resource, so that they read as different if they are.
pub fn two_amounts(resource: ResourceId, a: i64, b: i64) -> (String, String) {
    let texts = (amount(resource, a), amount(resource, b));
    if a == b || texts.0 != texts.1 {
        return texts;
    }
    let exact = |bytes: i64| match bytes % 1024 {
        0 => format!("{}Ki", bytes / 1024),
        _ => bytes.to_string(),
    };
    (exact(a), exact(b))
}

/// Amounts as objects have them, by the name of the resource: exact, and CPU in thousandths.
pub fn quantities(
    names: &Symbols,
    amounts: impl Iterator<Item = (ResourceId, i64)>,
) -> BTreeMap<String, String> {
    let text = |(id, amount): (ResourceId, i64)| {
        let unit = if id == ResourceId::Cpu { "m" } else { "" };
        (id.name(names).to_owned(), format!("{amount}{unit}"))
    };
    amounts.map(text).collect()
}

/// Bytes in the largest binary unit that keeps them readable: `512Mi`, `1.5Gi`.
pub fn size(bytes: i64) -> String {
    const UNITS: [&str; 5] = ["", "Ki", "Mi", "Gi", "Ti"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value.abs() >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let short = format!("{value:.1}");
    format!(
        "{}{}",
        short.strip_suffix(".0").unwrap_or(&short),
        UNITS[unit]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_the_largest_readable_unit() {
        let shown = [0, 1023, 1024, 1536 << 20, 512 << 20, 2 << 40, -(1 << 30)].map(size);
        assert_eq!(shown, ["0", "1023", "1Ki", "1.5Gi", "512Mi", "2Ti", "-1Gi"]);
    }

    #[test]
    fn amounts_that_differ_read_as_different() {
        let of = |a, b| two_amounts(ResourceId::Memory, a, b);
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(of(1536 << 20, 1 << 30), pair("1.5Gi", "1Gi"));
        assert_eq!(of(1536 << 20, 1535 << 20), pair("1572864Ki", "1571840Ki"));
        assert_eq!(
            of(1536 << 20, (1536 << 20) - 1),
            pair("1572864Ki", "1610612735")
        );
    }
}
