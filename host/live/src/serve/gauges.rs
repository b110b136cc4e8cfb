//! Gauges of the cluster's state.
//!
//! They are written from a [`MetricsSnapshot`] when `/metrics` is read, family by family and a page
//! at a time, so that many pods cost the loop neither time nor memory. Names and labels are
//! Karpenter's. A label without a value is left out, which Prometheus treats as the same.

mod families;
mod line;

use families::FAMILIES;

use crate::observe::state::MetricsSnapshot;

/// Size of a page in bytes; each page is sent to the reader when it is full.
const PAGE_BYTES: usize = 32 * 1024;

/// The text of all gauges, in pages.
pub struct Pages {
    snapshot: MetricsSnapshot,
    family: usize,
    row: usize,
}

impl Pages {
    /// The first page of a picture comes next.
    pub fn new(picture: MetricsSnapshot) -> Self {
        Pages {
            snapshot: picture,
            family: 0,
            row: 0,
        }
    }
}

impl Iterator for Pages {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut page = String::new();
        while let Some(family) = FAMILIES.get(self.family) {
            let rows = (family.rows)(&self.snapshot);
            if self.row == 0 && rows > 0 {
                line::head(&mut page, family.name, family.help);
            }
            while self.row < rows {
                (family.write)(
                    &self.snapshot,
                    self.row,
                    &mut line::Lines {
                        page: &mut page,
                        name: family.name,
                    },
                );
                self.row += 1;
                if page.len() >= PAGE_BYTES {
                    return Some(page);
                }
            }
            (self.family, self.row) = (self.family + 1, 0);
        }
        (!page.is_empty()).then_some(page)
    }
}

#[cfg(test)]
pub mod reference;
#[cfg(test)]
mod tests;
