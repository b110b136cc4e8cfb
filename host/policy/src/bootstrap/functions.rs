//! The functions that a bootstrap policy exports.

use wasmtime::Store;
use wasmtime::component::TypedFunc;

use super::answers::{NamedColumns, UserData};
use crate::call::answer::Answer;
use crate::imports::state::StoreData;
use crate::loaded::Exports;

/// The functions of `bootstrap`.
#[derive(Clone, Copy)]
pub(crate) struct BootFunctions {
    pub(super) overheads: TypedFunc<(), Answer<NamedColumns>>,
    pub(super) user_data: TypedFunc<(Vec<u32>,), Answer<UserData>>,
}

impl BootFunctions {
    /// Finds them, if the component exports them.
    pub fn of(
        exports: &Exports,
        store: &mut Store<StoreData>,
        instance: &wasmtime::component::Instance,
    ) -> wasmtime::Result<Option<Self>> {
        let (Some(overheads), Some(user_data)) = (&exports.overheads, &exports.user_data) else {
            return Ok(None);
        };
        Ok(Some(BootFunctions {
            overheads: instance.get_typed_func(&mut *store, overheads)?,
            user_data: instance.get_typed_func(&mut *store, user_data)?,
        }))
    }
}
