//! Loops over columns. In a policy the host counts fuel at the end of each turn of a loop, so a turn
//! takes eight rows.

const ROWS: usize = 8;

/// Replaces each value.
pub(super) fn each<T: Copy>(all: &mut [T], of: impl Fn(T) -> T) {
    let (chunks, rest) = all.as_chunks_mut::<ROWS>();
    for chunk in chunks {
        for one in chunk {
            *one = of(*one);
        }
    }
    for one in rest {
        *one = of(*one);
    }
}

/// Replaces each value by what it makes with the one beside it.
pub(super) fn zip<T: Copy, U: Copy>(all: &mut [T], others: &[U], of: impl Fn(T, U) -> T) {
    let (chunks, rest) = all.as_chunks_mut::<ROWS>();
    let (beside, beside_rest) = others.as_chunks::<ROWS>();
    for (chunk, beside) in chunks.iter_mut().zip(beside) {
        for (one, other) in chunk.iter_mut().zip(beside) {
            *one = of(*one, *other);
        }
    }
    for (one, other) in rest.iter_mut().zip(beside_rest) {
        *one = of(*one, *other);
    }
}

/// A value made of each.
pub(super) fn made<T: Copy, U: Copy + Default>(of: &[T], make: impl Fn(T) -> U) -> Vec<U> {
    let mut all = vec![U::default(); of.len()];
    zip(&mut all, of, |_, one| make(one));
    all
}

/// A value made of each pair.
pub(super) fn made_of_two<T: Copy, U: Copy + Default>(
    of: &[T],
    others: &[T],
    make: impl Fn(T, T) -> U,
) -> Vec<U> {
    let mut all = vec![U::default(); of.len()];
    let (chunks, rest) = all.as_chunks_mut::<ROWS>();
    let ((left, left_rest), (right, right_rest)) =
        (of.as_chunks::<ROWS>(), others.as_chunks::<ROWS>());
    for ((chunk, left), right) in chunks.iter_mut().zip(left).zip(right) {
        for ((one, left), right) in chunk.iter_mut().zip(left).zip(right) {
            *one = make(*left, *right);
        }
    }
    for ((one, left), right) in rest.iter_mut().zip(left_rest).zip(right_rest) {
        *one = make(*left, *right);
    }
    all
}

/// Replaces each value by the one beside it where a condition does not hold.
pub(super) fn choose<T: Copy>(condition: &[bool], first: &mut [T], second: &[T]) {
    let (chunks, rest) = first.as_chunks_mut::<ROWS>();
    let ((holds, holds_rest), (second, second_rest)) =
        (condition.as_chunks::<ROWS>(), second.as_chunks::<ROWS>());
    for ((chunk, holds), second) in chunks.iter_mut().zip(holds).zip(second) {
        for ((one, holds), second) in chunk.iter_mut().zip(holds).zip(second) {
            *one = if *holds { *one } else { *second };
        }
    }
    for ((one, holds), second) in rest.iter_mut().zip(holds_rest).zip(second_rest) {
        *one = if *holds { *one } else { *second };
    }
}
