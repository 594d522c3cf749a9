//! Encoding of the fields of a holder id, so that no field contains the separator.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Percent-encodes characters that would be misread: `%`, the separator, blanks and control
/// characters.
pub(super) fn encoded(field: &str) -> String {
    let mut out = String::with_capacity(field.len());
    for c in field.chars() {
        if matches!(c, '%' | ':') || c.is_control() || c.is_whitespace() {
            let mut bytes = [0; 4];
            out.extend(c.encode_utf8(&mut bytes).bytes().map(|byte| format!("%{byte:02X}")));
        } else {
            out.push(c);
        }
    }
    out
}

/// Decodes a field. A percent sign that isn't followed by a byte stands for itself: other tools
/// write fields unencoded.
pub(super) fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).filter(|digits| *first == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        let byte = digits
            .and_then(|digits| core::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
