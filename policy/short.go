package policy

import (
	"fmt"
	"slices"
	"strings"
)

// ParseString reads the short form for batch scripts: settings with commas
// between them, eager=reuse,rndv=read-event,eager-limit=16K. KEY-VALUE may
// stand for KEY=VALUE where the value is a word. The short form means mode act
// unless it names another mode (off, observe, advise); auto alone leaves every
// choice open. The error is a Problems; its columns count in text.
func ParseString(source, text string) (*Layer, error) {
	l := &Layer{Source: source, Settings: map[string]string{}, text: []byte(text), places: map[string]int{}}
	var problems Problems
	at := 0
	var before *Word // of the setting before this one
	for _, part := range strings.Split(text, ",") {
		begin := at + len(part) - len(strings.TrimLeft(part, " "))
		name, wrong := l.part(strings.Trim(part, " "), begin, before)
		if wrong != "" {
			problems = append(problems, Problem{source, 1, begin + 1, name, wrong})
		}
		key, _, _ := strings.Cut(strings.Trim(part, " "), "=")
		before = findShort(key)
		at += len(part) + 1
	}
	if l.Settings["mode"] == "" {
		l.Settings["mode"] = "act"
	}
	if err := problems.orNil(); err != nil {
		return nil, err
	}
	return l, nil
}

// part reads one setting, behind another one, and tells what is wrong with it.
func (l *Layer) part(part string, at int, before *Word) (name, wrong string) {
	key, value, ok := strings.Cut(part, "=")
	var w *Word
	switch {
	case part == "":
		return "", "is empty: write auto to leave every choice open"
	case part == auto:
		return "", ""
	case ok:
		w = findShort(key)
	case before != nil && before.Type == "choice" && slices.Contains(before.Values, part):
		return part, fmt.Sprintf("no such setting: several values of %s have a + between them (%s=%s+%s)", before.Short, before.Short, before.Values[0], before.Values[1])
	case slices.Contains(settings[0].Values, part):
		w, value = &settings[0], part
	default:
		w, value = splitWord(part)
	}
	if w == nil {
		return key, unknownShort(key)
	}
	if l.Settings[w.Name] != "" {
		return w.Short, "stands twice: keep one"
	}
	canonical, err := w.canonical(value)
	if err != nil && strings.ContainsAny(value, "; =") {
		return w.Short, fmt.Sprintf("%q is no value: settings have commas between them, and no blanks", value)
	}
	if err != nil {
		return w.Short, err.Error()
	}
	l.Settings[w.Name] = canonical
	l.places[w.Name] = at
	return "", ""
}

// findShort finds a setting by its name in the short form, or in files.
func findShort(name string) *Word {
	for i := range settings {
		if settings[i].Short == name || settings[i].Name == name || settings[i].Short == strings.ReplaceAll(name, "_", "-") {
			return &settings[i]
		}
	}
	return nil
}

// splitWord reads KEY-VALUE, nil if it is none.
func splitWord(part string) (*Word, string) {
	for i := range settings {
		value, ok := strings.CutPrefix(part, settings[i].Short+"-")
		if ok && slices.Contains(settings[i].Values, value) {
			return &settings[i], value
		}
	}
	return nil, ""
}

func unknownShort(key string) string {
	if w := findShort(key); w != nil {
		return fmt.Sprintf("has no value: write %s=, and behind it %s", w.Short, expected(w))
	}
	if slices.Contains([]string{"on", "yes", "true", "1", "default"}, key) {
		return "no such setting: auto leaves every choice open"
	}
	names := append([]string{auto}, settings[0].Values...)
	for i := range settings {
		names = append(names, settings[i].Short)
		for _, v := range settings[i].Values {
			names = append(names, settings[i].Short+"-"+v)
		}
	}
	if near := nearest(key, names); near != "" {
		return fmt.Sprintf("no such setting: did you mean %s?", near)
	}
	return "no such setting: docs/policy-settings.md lists them"
}

// String is the short form of a layer: settings in the order of the spec. It
// is refused for a layer with rules, or without a mode, which the short form
// cannot say.
func (l *Layer) String() (string, error) {
	switch {
	case len(l.Rules) > 0:
		return "", fmt.Errorf("%w: %s: rules have no short form", ErrPolicy, l.Source)
	case l.Settings["mode"] == "":
		return "", fmt.Errorf("%w: %s: the short form always has a mode", ErrPolicy, l.Source)
	}
	var parts []string
	for i := range settings {
		w, value := &settings[i], l.Settings[settings[i].Name]
		switch {
		case value == "" || w.Name == "mode" && value == "act":
		case w.Name == "mode":
			parts = append(parts, value)
		default:
			parts = append(parts, w.Short+"="+w.text(value))
		}
	}
	if len(parts) == 0 {
		return auto, nil
	}
	return strings.Join(parts, ","), nil
}

// text is a canonical value as people write it.
func (w *Word) text(value string) string {
	switch {
	case w.Type == "choice" && value == strings.Join(w.Values, "+"):
		return auto
	case w.Type == "size" && value != auto:
		n, _ := rangeOf(value + "..")
		return sizeText(n)
	}
	return value
}
