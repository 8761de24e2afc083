//! One member of a response, as it is written.

use std::ops::Range;

use crate::{JsonError, JsonKind, JsonReader};

/// The raw JSON of a top-level member of a response, the last one where the key is repeated; `None` where it is not there,
/// and for a body that is no JSON object. An engine hands over what another one is to be told this way.
pub fn member_of<'a>(body: &'a [u8], name: &str) -> Option<&'a str> {
    let text = std::str::from_utf8(body).ok()?;
    let mut reader = JsonReader::new(text);
    let found = member_in(&mut reader, name).ok()?;
    reader.finish().ok()?;
    text.get(found?)
}

/// The same for a member of the first choice, where some engines put what is handed over.
pub fn member_of_first_choice<'a>(body: &'a [u8], name: &str) -> Option<&'a str> {
    let choices = member_of(body, "choices")?;
    let mut first = None;
    let mut is_first = true;
    let mut reader = JsonReader::new(choices);
    let read = reader.array(|choice| {
        let is_object = choice.kind()? == JsonKind::Object;
        if std::mem::take(&mut is_first) && is_object {
            first = member_in(choice, name)?;
        } else {
            choice.skip()?;
        }
        Ok::<(), JsonError>(())
    });
    read.ok()?;
    choices.get(first?)
}

/// Where the value of a member stands in an object.
fn member_in(reader: &mut JsonReader<'_>, name: &str) -> Result<Option<Range<usize>>, JsonError> {
    let mut found = None;
    reader.object(|member, key| {
        member.kind()?;
        let start = member.position();
        member.skip()?;
        if key == name {
            found = Some(start..member.position());
        }
        Ok::<(), JsonError>(())
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_of_the_top_level_is_found_as_it_is_written() {
        let body = br#" {"a":{"handoff":1}, "handoff" : { "room" : 1.50, "x": [null] } ,"b":"handoff"} "#;
        assert_eq!(member_of(body, "handoff"), Some(r#"{ "room" : 1.50, "x": [null] }"#));
        assert_eq!(member_of(body, "b"), Some("\"handoff\""));
        assert_eq!(member_of(body, "room"), None);
        assert_eq!(member_of(br#"{"x":1,"x":null}"#, "x"), Some("null"));
    }

    #[test]
    fn what_is_no_object_has_no_members() {
        for body in ["", "[1]", "{\"x\":1", "{\"x\":1} {", "oops"] {
            assert_eq!(member_of(body.as_bytes(), "x"), None, "{body}");
        }
        assert_eq!(member_of(b"{\"x\":1,\"y\":\"\xff\"}", "x"), None);
    }

    #[test]
    fn a_member_of_the_first_choice_is_found_and_of_no_other() {
        let body = br#"{"choices":[ {"index":0,"handoff" : {"id": 7} },{"handoff":8}],"handoff":9}"#;
        assert_eq!(member_of_first_choice(body, "handoff"), Some(r#"{"id": 7}"#));
        for other in [
            r#"{"choices":[{},{"handoff":8}]}"#,
            r#"{"choices":[7,{"handoff":8}]}"#,
            r#"{"choices":7}"#,
            "{}",
        ] {
            assert_eq!(member_of_first_choice(other.as_bytes(), "handoff"), None, "{other}");
        }
    }
}
