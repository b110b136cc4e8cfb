//! The checksum of answers in the journal, and of the columns that an edition stands for.

use std::sync::Arc;

/// A checksum in the manner of FNV, eight bytes at a time.
pub(crate) struct Sum(pub u64);

impl Default for Sum {
    fn default() -> Self {
        Sum(0xcbf2_9ce4_8422_2325)
    }
}

impl Sum {
    pub fn take(&mut self, bits: u64) {
        self.0 = (self.0 ^ bits)
            .wrapping_mul(0x0100_0000_01b3)
            .rotate_left(23);
    }

    pub fn text(&mut self, text: &str) {
        self.take(text.len() as u64);
        text.bytes().for_each(|byte| self.take(u64::from(byte)));
    }

    pub fn table(&mut self, table: &[Arc<str>]) {
        self.take(table.len() as u64);
        table.iter().for_each(|text| self.text(text));
    }

    pub fn column(&mut self, column: &[u32]) {
        self.take(column.len() as u64);
        column.iter().for_each(|&at| self.take(u64::from(at)));
    }
}
