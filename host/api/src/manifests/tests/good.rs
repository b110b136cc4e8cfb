//! What becomes of objects that are in order.
