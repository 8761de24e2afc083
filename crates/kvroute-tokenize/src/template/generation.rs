//! The `{% generation %}` tag, by which Hugging Face marks what an assistant said. It renders its body.

/// Replaces the tag by one that renders its body too, white space control untouched.
pub(super) fn without_tags(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, from_tag) = rest.split_at(start);
        text.push_str(before);
        let Some(length) = from_tag[2..].find("%}") else {
            rest = from_tag;
            break;
        };
        let (tag, behind) = from_tag.split_at(2 + length + 2);
        let inner = &tag[2..2 + length];
        match inner.trim_matches(['-', '+']).trim() {
            "generation" => text.push_str(&tag.replace("generation", "if true")),
            "endgeneration" => text.push_str(&tag.replace("endgeneration", "endif")),
            _ => text.push_str(tag),
        }
        rest = behind;
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::without_tags;

    #[test]
    fn only_the_tag_itself_is_replaced() {
        let source =
            "a {%- generation -%} generation {{ generation }} {% endgeneration +%} {% if generation %}";
        let expected = "a {%- if true -%} generation {{ generation }} {% endif +%} {% if generation %}";
        assert_eq!(without_tags(source), expected);
        for odd in ["{% open", "{%}", "{%-%}", "{%%}"] {
            assert_eq!(without_tags(odd), odd);
        }
    }
}
