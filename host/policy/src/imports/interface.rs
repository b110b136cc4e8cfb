//! How a function of an interface is defined: a column or a number that is lowered from what is
//! shared, and paid for.

use std::sync::Arc;

use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentNamedList, Lift, Lower};

use super::state::{State, charge};
use crate::columns::Columns;

/// A value with a known size in the guest.
pub(super) trait Bytes {
    fn bytes(&self) -> usize;
}

impl<T: Copy> Bytes for Arc<[T]> {
    fn bytes(&self) -> usize {
        std::mem::size_of_val::<[T]>(self)
    }
}

pub(crate) struct Interface<'a> {
    pub(super) linker: wasmtime::component::LinkerInstance<'a, State>,
    pub(super) names: &'a mut Vec<&'static str>,
}

impl Interface<'_> {
    pub(crate) fn function<P, R>(
        &mut self,
        name: &'static str,
        f: impl Fn(StoreContextMut<State>, P) -> wasmtime::Result<R> + Send + Sync + 'static,
    ) -> wasmtime::Result<()>
    where
        P: ComponentNamedList + Lift + 'static,
        R: ComponentNamedList + Lower + 'static,
    {
        self.names.push(name);
        self.linker.func_wrap(name, f)
    }

    pub(crate) fn scalar<R>(
        &mut self,
        name: &'static str,
        get: fn(&State) -> R,
    ) -> wasmtime::Result<()>
    where
        R: Send + Sync + 'static,
        (R,): ComponentNamedList + Lower,
    {
        self.function(name, move |mut cx, (): ()| {
            charge(&mut cx, 0)?;
            Ok((get(cx.data()),))
        })
    }

    pub(super) fn column<T>(
        &mut self,
        name: &'static str,
        get: fn(&Columns) -> &Arc<[T]>,
    ) -> wasmtime::Result<()>
    where
        T: Copy + Send + Sync + 'static,
        (Arc<[T]>,): ComponentNamedList + Lower,
    {
        self.function(name, move |mut cx, (): ()| {
            let column = get(&cx.data().columns).clone();
            charge(&mut cx, column.bytes())?;
            Ok((column,))
        })
    }

    /// A column that is made of a signal: of unknown values for a policy that may not read that.
    pub(super) fn of_signal<T>(
        &mut self,
        name: &'static str,
        signal: &'static str,
        get: fn(&Columns, bool) -> Arc<[T]>,
    ) -> wasmtime::Result<()>
    where
        T: Copy + Send + Sync + 'static,
        (Arc<[T]>,): ComponentNamedList + Lower,
    {
        self.function(name, move |mut cx, (): ()| {
            let state = cx.data();
            let column = get(&state.columns, state.visible.contains(signal));
            charge(&mut cx, column.bytes())?;
            Ok((column,))
        })
    }

    pub(super) fn table(
        &mut self,
        name: &'static str,
        get: fn(&Columns) -> &Arc<[Arc<str>]>,
    ) -> wasmtime::Result<()> {
        self.function(name, move |mut cx, (): ()| {
            let table = get(&cx.data().columns).clone();
            charge(&mut cx, strings(&table))?;
            Ok((table,))
        })
    }
}

/// Bytes of a table of strings in a guest: each is a call of the guest's allocator beside its text.
pub(super) fn strings(table: &[Arc<str>]) -> usize {
    table.iter().map(|text| text.len() + 8).sum()
}
