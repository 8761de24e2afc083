//! The catalogue as a Python module, so that whoever queries the metrics spells no name by hand.

use std::fmt::{self, Write};

use kvroute_metrics::{CATALOGUE, Group, Row};

const INTRODUCTION: &str = r#""""Every metric family that kvroute exports.

Generated from the metric catalogue by `cargo xtask bless`; never edit. A constant is the name of a family under
the default prefix; `name` gives it under another one (`metrics.prefix` of the router), and `FAMILIES` tells the
type, the labels, the unit and the meaning of each.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

"#;

const DEFINITIONS: &str = r#"

@dataclass(frozen=True)
class Family:
    """One metric family."""

    name: str
    """Name under the default prefix; of a histogram without `_bucket`, `_sum` and `_count`."""
    type: Literal["counter", "gauge", "histogram"]
    """What kind of metric it is."""
    labels: tuple[str, ...]
    """Labels of its own, in a fixed order."""
    unit: str
    """What one unit of its value is."""
    help: str
    """What its value means."""


"#;

const FUNCTIONS: &str = r#"_NAMES: Final = frozenset(family.name for family in FAMILIES)

def name(constant: str, prefix: str = DEFAULT_PREFIX) -> str:
    """The name of a family under a prefix, as a router with this `metrics.prefix` exports it.

    Only standard families have the prefix; the names of all others are always the same. Raises `ValueError` for a
    name that is none of the constants, and for a prefix that cannot begin a metric name.
    """
    if constant not in _NAMES:
        raise ValueError(f"{constant!r} is no metric family of kvroute; use a constant of this module")
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", prefix, re.ASCII):
        raise ValueError(f"prefix {prefix!r} cannot begin a metric name; use letters, digits and _")
    return prefix + constant[len(DEFAULT_PREFIX) :] if constant in _STANDARD else constant
"#;

/// The module, with standard families under a default prefix.
pub fn python_module(prefix: &str) -> String {
    let mut module = String::from(INTRODUCTION);
    // Writing to a string cannot fail.
    let _ = write_constants(&mut module, prefix);
    module.push_str(DEFINITIONS);
    let _ = write_families(&mut module);
    module.push_str(FUNCTIONS);
    module
}

fn write_constants(module: &mut String, prefix: &str) -> fmt::Result {
    writeln!(module, "DEFAULT_PREFIX: Final = {}", literal(prefix))?;
    writeln!(module, "\"\"\"What the names of the standard families begin with.\"\"\"\n")?;
    for row in CATALOGUE {
        let (constant, name) = (constant(row), literal(&row.exposed_name(prefix)));
        writeln!(module, "{constant}: Final = {name}\n\"\"\"{}.\"\"\"", row.help.trim_end_matches('.'))?;
    }
    Ok(())
}

fn write_families(module: &mut String) -> fmt::Result {
    writeln!(module, "FAMILIES: Final[tuple[Family, ...]] = (")?;
    for row in CATALOGUE {
        let labels: String = row.labels.iter().map(|label| format!("{}, ", literal(label.name))).collect();
        writeln!(module, "    Family(")?;
        writeln!(module, "        name={},", constant(row))?;
        writeln!(module, "        type={},", literal(row.kind.as_str()))?;
        writeln!(module, "        labels=({}),", labels.trim_end())?;
        writeln!(module, "        unit={},", literal(row.unit))?;
        writeln!(module, "        help={},", literal(row.help))?;
        writeln!(module, "    ),")?;
    }
    writeln!(module, ")\n\"\"\"Every family, in the order of the documentation.\"\"\"\n")?;
    write_standard(module)
}

/// The constants whose names change with the prefix.
fn write_standard(module: &mut String) -> fmt::Result {
    writeln!(module, "_STANDARD: Final = frozenset((")?;
    for row in CATALOGUE.iter().filter(|row| row.group() == Group::Standard) {
        writeln!(module, "    {},", constant(row))?;
    }
    writeln!(module, "))")
}

/// Of the name under the default prefix, so that it is the same whatever prefix the module is made for.
fn constant(row: &Row) -> String {
    row.name.to_ascii_uppercase()
}

/// The catalogue's texts are ASCII.
fn literal(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
