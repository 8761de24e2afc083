//! Texts that tokenizers and templates find hard.

use crate::random::Dice;

/// Pieces of which texts are put together.
const PIECES: [&str; 96] = [
    "the",
    " the",
    "The ",
    " committee",
    "agreed",
    "on",
    " a",
    "I",
    " don't",
    "they'LL",
    "we’ve",
    "it'S",
    "ſ",
    "'ſ",
    " ",
    "  ",
    "   ",
    "\n",
    "\n\n",
    " \n ",
    "\r\n",
    "\t",
    "\u{a0}",
    "\u{2003}",
    "\u{3000}",
    "\u{200b}",
    "\u{85}",
    "1",
    "12",
    "123",
    "1234",
    "3.14",
    "1e-5",
    "１２",
    "٣٤",
    "Ⅷ",
    "½",
    ".",
    ",",
    "!",
    "?!",
    "...",
    "/",
    "//x/",
    "{",
    "}",
    "{{ x }}",
    "{% if %}",
    "<b>",
    "&amp;",
    "\"",
    "'",
    "\\",
    "\\n",
    "`",
    "```rust\nfn f() -> u8 { 7 }\n```",
    "#",
    "-- ",
    "Grüße",
    "é",
    "e\u{301}",
    "ﬁ",
    "Å",
    "ẞ",
    "Ǆ",
    "ΑΒΓ",
    "привет",
    "你好世界",
    "日本語のテキスト",
    "カナ",
    "ー",
    "한국어",
    "नमस्ते",
    "العربية",
    "👩‍👩‍👧‍👦",
    "👍🏽",
    "🇩🇪",
    "𝕏",
    "\u{1f468}",
    "\u{feff}",
    "\u{fffd}",
    "_id",
    "snake_case",
    "CamelCase",
    "HTTPServer",
    "x=1;",
    "a-b",
    "https://example.com/?q=1&r=%20",
    "<think>",
    "</think>",
    "<tool_call>",
    "<|",
    "|>",
    "<｜",
    "｜>",
    "[INST]",
];

/// Special tokens of several models, whole and broken.
const SPECIAL: [&str; 22] = [
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<｜begin▁of▁sentence｜>",
    "<｜end▁of▁sentence｜>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<｜tool▁sep｜>",
    "<|EOT|>",
    "<|start|>",
    "<|end|>",
    "<|channel|>",
    "<|return|>",
    "<|im_start",
    "im_end|>",
    "<|im_start|><|im_start|>",
    "<tool_response>",
    "<|reserved_special_token_5|>",
];

/// A text of up to `pieces` pieces that any character may be in.
pub(crate) fn text(dice: &mut Dice, pieces: usize) -> String {
    let mut text = known_text(dice, pieces);
    (0..dice.below(4)).for_each(|_| text.push(dice.character()));
    text
}

/// A text of up to `pieces` pieces of known characters: versions of Python differ in how they print new ones in lists.
pub(crate) fn known_text(dice: &mut Dice, pieces: usize) -> String {
    let mut text = String::new();
    for _ in 0..dice.below(pieces + 1) {
        match dice.below(20) {
            0 => text.push_str(dice.pick(&SPECIAL)),
            3 => text.push_str(&" ".repeat(dice.below(9))),
            _ => text.push_str(dice.pick(&PIECES)),
        }
        if dice.chance(30) {
            text.push(' ');
        }
    }
    text
}
