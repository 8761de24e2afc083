//! The parts of Python that chat templates rely on.
//!
//! Templates are written for Jinja2 and run here by a Jinja in Rust. Where the two print something
//! differently, Python's way is spelled out here, since it is what models were trained on and engines do.

mod float;
mod json;
mod lines;
mod printed;
mod repr;
mod strftime;
mod text;

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, Value};

pub(crate) use self::printed::printed;

/// The function and filter names that Hugging Face adds to Jinja2, and Python's way of printing floats.
pub(crate) fn add_to(environment: &mut Environment<'static>) {
    environment.set_unknown_method_callback(text::method);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime::strftime_now);
    environment.add_filter("tojson", json::tojson);
    environment.add_filter("trim", text::trim);
    environment.add_filter("string", text::string);
    environment.add_filter("indent", lines::indent);
    environment.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    environment.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Undefined)
    });
    environment.set_formatter(|output, state, value| {
        if value.kind() == ValueKind::Number && !value.is_integer() {
            let number = f64::try_from(value.clone())?;
            return Ok(std::fmt::Write::write_str(output, &float::repr(number))?);
        }
        if repr::is_container(value) {
            return Ok(std::fmt::Write::write_str(output, &repr::repr(value)?)?);
        }
        minijinja::escape_formatter(output, state, value)
    });
}

fn raise_exception(message: &Value) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.to_string()))
}
