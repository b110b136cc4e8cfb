//! What no call of EC2 answers, from the data files in `host/ec2/data`: branch interfaces, network
//! bandwidth, and the prices that hold until the Pricing API has answered.
//!
//! `data/make_tables.py` makes the files again and writes date and sources into their heads.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

/// What is known about a type's network beyond EC2's description.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkRow {
    /// Branch interfaces for security groups per pod; 0 if the type has no trunk interface.
    pub branch_interfaces: i64,
    /// IPv4 addresses that a Windows node hands to pods; `None` if unknown.
    pub windows_addresses: Option<i64>,
    /// Baseline bandwidth in Mbps.
    pub mbps: Option<i64>,
}

/// Regions with a price column; every other region takes the first.
const PRICE_REGIONS: [&str; 4] = ["us-east-1", "us-gov-east-1", "us-gov-west-1", "cn-north-1"];

static NETWORK: LazyLock<FxHashMap<&'static str, NetworkRow>> =
    LazyLock::new(|| rows(include_str!("../../data/network.tsv"), network_row).collect());

static PRICES: LazyLock<FxHashMap<&'static str, [Option<f64>; 4]>> =
    LazyLock::new(|| rows(include_str!("../../data/prices.tsv"), price_row).collect());

/// The network of a type; nothing if it is in no table.
pub fn network(name: &str) -> Option<NetworkRow> {
    NETWORK.get(name).copied()
}

/// The recorded on-demand price of a type, USD per hour (in China: CNY). A region without a column
/// takes the prices of us-east-1, as Karpenter does.
pub fn on_demand_price(region: &str, name: &str) -> Option<f64> {
    let column = PRICE_REGIONS.iter().position(|r| *r == region).unwrap_or(0);
    PRICES.get(name)?[column]
}

/// Lines of a table as name and row. Heads start with `#`.
fn rows<T>(
    text: &'static str,
    row: fn(&mut dyn Iterator<Item = &'static str>) -> Option<T>,
) -> impl Iterator<Item = (&'static str, T)> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(move |line| {
            let mut cells = line.split('\t');
            Some((cells.next()?, row(&mut cells)?))
        })
}

fn network_row(cells: &mut dyn Iterator<Item = &'static str>) -> Option<NetworkRow> {
    Some(NetworkRow {
        branch_interfaces: cells.next()?.parse().ok()?,
        windows_addresses: cell(cells.next()?)?,
        mbps: cell(cells.next()?)?,
    })
}

fn price_row(cells: &mut dyn Iterator<Item = &'static str>) -> Option<[Option<f64>; 4]> {
    let mut row = [None; 4];
    for price in &mut row {
        *price = cell(cells.next()?)?;
    }
    Some(row)
}

/// `-` is nothing. The outer `None` is a cell that cannot be read.
fn cell<T: std::str::FromStr>(text: &str) -> Option<Option<T>> {
    match text {
        "-" => Some(None),
        _ => text.parse().ok().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_tables_is_read() {
        let lines = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(NETWORK.len(), lines(include_str!("../../data/network.tsv")));
        assert_eq!(PRICES.len(), lines(include_str!("../../data/prices.tsv")));
        assert!(NETWORK.len() > 1300 && PRICES.len() > 1300);
    }

    #[test]
    fn a_region_without_prices_takes_those_of_us_east_1() {
        assert_eq!(on_demand_price("us-east-1", "m5.large"), Some(0.096));
        assert_eq!(on_demand_price("eu-west-3", "m5.large"), Some(0.096));
        assert_eq!(on_demand_price("cn-north-1", "no.such"), None);
        assert_ne!(on_demand_price("cn-north-1", "m5.large"), Some(0.096));
    }
}
