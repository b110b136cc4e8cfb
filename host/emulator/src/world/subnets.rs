//! Addresses of subnets.

use super::account::Subnet;

impl Subnet {
    /// Takes addresses: one gets a number, for the instance, the others are counted. `None` if
    /// there are not enough.
    pub(crate) fn take(&mut self, count: u32) -> Option<String> {
        if count > self.free_addresses {
            return None;
        }
        self.free_addresses -= count;
        // AWS keeps the first four addresses of a block.
        let mut number = 4;
        for used in &self.used {
            if *used > number {
                break;
            }
            number = used + 1;
        }
        self.used.insert(number);
        Some(self.address(number))
    }

    /// Frees the number of an address.
    pub(crate) fn release(&mut self, address: &str) {
        if let (Some(base), Some(number)) = (self.base(), parse(address)) {
            self.used.remove(&number.wrapping_sub(base));
        }
    }

    fn base(&self) -> Option<u32> {
        parse(self.cidr.split('/').next()?)
    }

    fn address(&self, number: u32) -> String {
        let base = self.base().unwrap_or(0x0a00_0000);
        std::net::Ipv4Addr::from(base.wrapping_add(number)).to_string()
    }
}

fn parse(address: &str) -> Option<u32> {
    address.parse::<std::net::Ipv4Addr>().ok().map(u32::from)
}

#[cfg(test)]
mod tests {
    use crate::world::Account;

    #[test]
    fn addresses_are_given_back_and_run_out() {
        let mut account = Account::default_region();
        let subnet = account.subnets.values_mut().next().unwrap();
        subnet.free_addresses = 3;
        let first = subnet.take(1).unwrap();
        assert_eq!(
            (&*first, &*subnet.take(2).unwrap()),
            ("10.0.0.4", "10.0.0.5")
        );
        assert_eq!(subnet.take(1), None);
        subnet.free_addresses += 1;
        subnet.release(&first);
        assert_eq!(subnet.take(1), Some(first));
    }
}
