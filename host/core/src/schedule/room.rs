//! Free room of existing nodes, in the order in which they are tried, with an index that finds the
//! next node with enough room.

use smallvec::SmallVec;

use super::fit::ResourceVector;

/// Nodes of a block, for which the most of each resource is known.
const BLOCK_NODES: usize = 32;

/// What is left on each existing node. Pods take from it, and it can be given back.
#[derive(Clone, Debug)]
pub struct Room {
    free: Vec<ResourceVector>,
    /// At least what the emptiest node of each block has left, by resource. Pods that come make it
    /// too high, which costs a look at the block and nothing else.
    most: Vec<ResourceVector>,
    /// Which nodes are removed, by position.
    removed: Vec<bool>,
    /// What has changed, the latest last.
    log: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Taken {
        node: u32,
        amounts: ResourceVector,
        times: u32,
    },
    Removed {
        node: u32,
    },
}

impl Room {
    /// What nodes have left before anything is placed.
    pub fn new(free: Vec<ResourceVector>) -> Self {
        let most = free.chunks(BLOCK_NODES).map(most_of).collect();
        Room {
            removed: vec![false; free.len()],
            most,
            free,
            log: Vec::new(),
        }
    }

    /// How many nodes there are, those that are removed included.
    pub fn len(&self) -> usize {
        self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.free.is_empty()
    }

    /// What a node has left. May be negative.
    pub fn of(&self, node: usize) -> &[i64] {
        &self.free[node]
    }

    /// Whether a node exists and has enough room.
    pub fn fits(&self, node: usize, request: &[i64]) -> bool {
        !self.removed[node] && covers(&self.free[node], request)
    }

    /// The first node from a number on with enough room.
    pub fn next(&self, from: usize, request: &[i64]) -> Option<usize> {
        let mut node = from;
        while node < self.free.len() {
            let block = node / BLOCK_NODES;
            let end = ((block + 1) * BLOCK_NODES).min(self.free.len());
            if covers(&self.most[block], request)
                && let Some(found) = (node..end).find(|&node| self.fits(node, request))
            {
                return Some(found);
            }
            node = end;
        }
        None
    }

    /// Subtracts an amount a number of times from the room of a node.
    pub fn take(&mut self, node: usize, request: &ResourceVector, times: u32) {
        subtract(&mut self.free[node], request, i64::from(times));
        self.log.push(Change::Taken {
            node: node as u32,
            amounts: request.clone(),
            times,
        });
    }

    /// From now on the node takes no pods, until this is undone.
    pub fn remove(&mut self, node: usize) {
        if !self.removed[node] {
            self.removed[node] = true;
            self.log.push(Change::Removed { node: node as u32 });
        }
    }

    /// Takes back everything since the start.
    pub fn rewind(&mut self) {
        while let Some(change) = self.log.pop() {
            match change {
                Change::Taken {
                    node,
                    amounts,
                    times,
                } => {
                    subtract(&mut self.free[node as usize], &amounts, -i64::from(times));
                }
                Change::Removed { node } => self.removed[node as usize] = false,
            }
        }
    }
}

fn covers(free: &[i64], request: &[i64]) -> bool {
    request
        .iter()
        .zip(free)
        .all(|(&want, &have)| want <= have || want == 0)
}

fn subtract(free: &mut [i64], request: &[i64], times: i64) {
    free.iter_mut()
        .zip(request)
        .for_each(|(free, &want)| *free -= want * times);
}

fn most_of(nodes: &[ResourceVector]) -> ResourceVector {
    let Some((first, rest)) = nodes.split_first() else {
        return SmallVec::new();
    };
    rest.iter().fold(first.clone(), |mut most, free| {
        most.iter_mut()
            .zip(free)
            .for_each(|(most, &free)| *most = (*most).max(free));
        most
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_node_with_room_is_found_across_blocks_and_what_was_taken_comes_back() {
        let free = (0..100)
            .map(|node| ResourceVector::from_slice(&[node % 50, 10]))
            .collect();
        let mut room = Room::new(free);
        let want = ResourceVector::from_slice(&[40, 5]);
        assert_eq!(room.next(0, &want), Some(40));
        room.take(40, &want, 1);
        assert_eq!(room.next(0, &want), Some(41));
        room.remove(41);
        assert_eq!(room.next(41, &want), Some(42));
        assert_eq!(room.next(50, &want), Some(90));
        assert_eq!(room.next(50, &[50, 5]), None);
        assert_eq!(
            room.next(99, &[0, 10]),
            Some(99),
            "of what is not asked for there may be anything"
        );
        room.rewind();
        assert_eq!(
            (room.next(0, &want), room.of(40)),
            (Some(40), &[40, 10][..])
        );
    }
}
