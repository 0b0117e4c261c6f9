//! Whether a restored state can be the declared one.

use super::{Migration, Reading, Schema};
use crate::{Error, ErrorKind, Result, format::Shape, place::Place};

/// How the elements of a state stored as `stored` are read as those of the one declared as `declared`.
///
/// Keys and namespaces must be encoded alike: another encoding would move entries to other groups.
pub(crate) fn check<T>(
    place: &Place,
    stored: &Shape,
    declared: &Shape,
    older: &[Migration<T>],
) -> Result<Reading<T>> {
    let refused = |remedy: &str| {
        let message = format!("{place}: restored as {stored}, declared as {declared}; {remedy}");
        Error::new(ErrorKind::Incompatible, message)
    };
    if stored.kind != declared.kind || stored.namespace != declared.namespace {
        return Err(refused(
            "give a changed state a new name, or restore with the program that wrote it",
        ));
    }
    let schema = Schema::explicit(&*declared.schema);
    let reading = Reading::of(&stored.schema, &schema, older).ok_or_else(|| {
        refused(
            "say how to convert it with `Descriptor::migrate_from`, give a changed state a new \
             name, or restore with the program that wrote it",
        )
    })?;
    Ok(reading.with_stamps(stored.stamped, declared.stamped))
}
