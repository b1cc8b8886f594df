package segment

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text is the text in a fixed-size field: up to the first NUL, with control
// characters and invalid UTF-8 replaced by '?', so that it is safe to print.
func Text(field []byte) string {
	if end := bytes.IndexByte(field, 0); end >= 0 {
		field = field[:end]
	}
	return CleanText(string(field))
}

// CleanText replaces tabs by blanks, and control characters, invalid UTF-8 and characters that
// reorder or hide text by '?', so that the result is safe to print.
func CleanText(text string) string {
	for _, r := range text {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return strings.Map(printable, text)
		}
	}
	return text
}

func printable(r rune) rune {
	if r == '\t' {
		return ' '
	}
	if r == utf8.RuneError || !unicode.IsPrint(r) {
		return '?'
	}
	return r
}
