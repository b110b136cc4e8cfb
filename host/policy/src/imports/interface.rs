//! How a function of an interface is defined: a column or a number that is lowered from what is
//! shared, and paid for.

use std::sync::Arc;

use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentNamedList, Lift, Lower};

use super::state::{StoreData, charge};
use crate::answer_cache::{Get, Value, View};
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
    pub(super) linker: wasmtime::component::LinkerInstance<'a, StoreData>,
    pub(super) names: &'a mut Vec<&'static str>,
}

impl Interface<'_> {
    pub(crate) fn function<P, R>(
        &mut self,
        name: &'static str,
        f: impl Fn(StoreContextMut<StoreData>, P) -> wasmtime::Result<R> + Send + Sync + 'static,
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
        get: fn(&StoreData) -> R,
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

    /// A function of the question alone. What it answers is noted, so that what is made of it can be kept.
    pub(super) fn asked<T>(
        &mut self,
        name: &'static str,
        get: impl Fn(&View<'_>) -> T + Send + Sync + 'static,
    ) -> wasmtime::Result<()>
    where
        T: Value,
        (T,): ComponentNamedList + Lower,
    {
        let get: Get<T> = Arc::new(move |view, _| get(view));
        self.function(name, move |mut cx, (): ()| answer(&mut cx, &get, ""))
    }

    /// As [`Interface::asked`], with a name as its parameter.
    pub(super) fn asked_by_name<T>(
        &mut self,
        name: &'static str,
        get: impl Fn(&View<'_>, &str) -> T + Send + Sync + 'static,
    ) -> wasmtime::Result<()>
    where
        T: Value,
        (T,): ComponentNamedList + Lower,
    {
        let get: Get<T> = Arc::new(get);
        self.function(name, move |mut cx, (key,): (String,)| {
            answer(&mut cx, &get, &key)
        })
    }

    pub(super) fn column<T>(
        &mut self,
        name: &'static str,
        get: fn(&Columns) -> &Arc<[T]>,
    ) -> wasmtime::Result<()>
    where
        Arc<[T]>: Value,
        (Arc<[T]>,): ComponentNamedList + Lower,
    {
        self.asked(name, move |view| get(&view.request.columns).clone())
    }

    /// As [`Interface::asked_by_name`], with a number besides.
    pub(super) fn asked_by_name_and_number<T>(
        &mut self,
        name: &'static str,
        get: impl Fn(&View<'_>, &str, f64) -> T + Send + Sync + 'static,
    ) -> wasmtime::Result<()>
    where
        T: Value,
        (T,): ComponentNamedList + Lower,
    {
        let made = move |view: &View<'_>, argument: &str| {
            let (bits, key) = argument.split_once(' ').unwrap_or_default();
            let bits = u64::from_str_radix(bits, 16).unwrap_or_default();
            get(view, key, f64::from_bits(bits))
        };
        let get: Get<T> = Arc::new(made);
        self.function(name, move |mut cx, (key, number): (String, f64)| {
            answer(&mut cx, &get, &format!("{:x} {key}", number.to_bits()))
        })
    }
}

/// Answers a call of a function of the question.
fn answer<T: Value>(
    cx: &mut StoreContextMut<StoreData>,
    get: &Get<T>,
    argument: &str,
) -> wasmtime::Result<(T,)> {
    let state = cx.data_mut();
    let view = View {
        request: &state.request,
        visible: &state.visible,
    };
    let value = get(&view, argument);
    state.reads.note(get, argument, &value);
    charge(cx, argument.len() + value.bytes())?;
    Ok((value,))
}

/// Bytes of a table of strings in a guest: each is a call of the guest's allocator beside its text.
pub(crate) fn strings(table: &[Arc<str>]) -> usize {
    table.iter().map(|text| text.len() + 8).sum()
}
