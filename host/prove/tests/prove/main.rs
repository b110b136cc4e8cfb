//! Twenty policies that are bad in one way each, all of which are found out; and our own, which are not.

mod bad_judges;
mod bad_scorers;
mod first_party;
