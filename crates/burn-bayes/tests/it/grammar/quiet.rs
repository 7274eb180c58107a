//! Panics that a test expects to see: caught, and not printed.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs something whose panics this thread does not print: recording finds out by panics what cannot
/// be recorded, and a backtrace costs more than the case itself.
pub(crate) fn quietly<T>(run: impl FnOnce() -> T) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let printed = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_QUIET.get() {
                printed(panic);
            }
        }));
    });
    let before = IS_QUIET.replace(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    IS_QUIET.set(before);
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A result, or the text of the panic in its place.
pub(crate) fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    quietly(|| catch_unwind(AssertUnwindSafe(run))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        text.unwrap_or_else(|| "without a text".into())
    })
}
