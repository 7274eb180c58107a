//! Catches expected panics without printing them.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs a closure without printing panics of this thread. Recording uses panics to detect what cannot be
/// recorded, and a backtrace takes longer than the case.
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

/// The result, or the text of the panic.
pub(crate) fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    quietly(|| catch_unwind(AssertUnwindSafe(run))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        text.unwrap_or_else(|| "without a text".into())
    })
}
