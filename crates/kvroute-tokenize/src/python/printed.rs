//! Lists and maps of a request, which print themselves as Python's do wherever a template makes text of them: by
//! printing, by a filter, or by adding them to a text.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr};

use super::repr;

/// A list or a map in everything but its text.
#[derive(Debug)]
struct Printed(DynObject);

/// The same list or map with Python's text; other values stay what they are.
pub(crate) fn printed(value: Value) -> Value {
    match value.as_object() {
        Some(object) => Value::from_object(Printed(object.clone())),
        None => value,
    }
}

// === impl Printed ===

impl Object for Printed {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        self.0.repr()
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get_value(key)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.0.get_value_by_str(key)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.0.enumerate()
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        self.0.enumerator_len()
    }

    fn is_true(self: &Arc<Self>) -> bool {
        self.0.is_true()
    }

    fn custom_cmp(self: &Arc<Self>, other: &DynObject) -> Option<Ordering> {
        self.0.custom_cmp(other)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = repr::repr(&Value::from_dyn_object(self.0.clone())).map_err(|_| fmt::Error)?;
        f.write_str(&text)
    }
}
