package knobs

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Check tests the text of a setting and returns it as the shim reads it:
// booleans 0 or 1, sizes in bytes, paths absolute. The error says what is
// allowed, without the name of the setting.
func (k Knob) Check(text string) (string, error) {
	switch k.Type {
	case "bool":
		return checkBool(text)
	case "enum":
		if !slices.Contains(k.Values, text) {
			return "", fmt.Errorf("%q is not one of %s", text, strings.Join(k.Values, ", "))
		}
	case "int":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < k.Min || k.Max != 0 && n > k.Max {
			return "", fmt.Errorf("%q is not a whole number from %d to %d", text, k.Min, k.highest())
		}
		return strconv.FormatInt(n, 10), nil
	case "size":
		n, err := ParseSize(text)
		return strconv.FormatInt(n, 10), err
	case "path":
		if text == "" {
			return "", fmt.Errorf("the path is empty")
		}
		return filepath.Abs(text)
	}
	if strings.ContainsAny(text, "\n\x00") {
		return "", fmt.Errorf("%q has a line break in it", text)
	}
	return text, nil
}

func (k Knob) highest() int64 {
	if k.Max != 0 {
		return k.Max
	}
	return math.MaxInt64
}

func checkBool(text string) (string, error) {
	switch strings.ToLower(text) {
	case "1", "true", "yes", "on":
		return "1", nil
	case "0", "false", "no", "off":
		return "0", nil
	}
	return "", fmt.Errorf("%q is neither 1 nor 0", text)
}

// ParseSize reads a number of bytes with an optional suffix K, M or G, which
// count in steps of 1024.
func ParseSize(text string) (int64, error) {
	digits, shift := text, 0
	if text != "" {
		if i := strings.IndexByte("KMG", text[len(text)-1]&^0x20); i >= 0 {
			digits, shift = text[:len(text)-1], 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || strings.HasPrefix(digits, "+") || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("%q is not a size: give bytes, or a number with K, M or G (256K)", text)
	}
	return n << shift, nil
}

// Value is a setting given as a flag; it is a pflag.Value.
type Value struct {
	Knob Knob
	text string
}

// String is the setting as given and checked, or the default.
func (v *Value) String() string {
	if v.text == "" {
		return v.Knob.Default
	}
	return v.text
}

// Set checks and stores the text.
func (v *Value) Set(text string) error {
	checked, err := v.Knob.Check(text)
	if err == nil {
		v.text = checked
	}
	return err
}

// Type names the kind of value in help texts.
func (v *Value) Type() string {
	switch v.Knob.Type {
	case "enum":
		return strings.Join(v.Knob.Values, "|")
	case "list":
		return "a,b,..."
	}
	return v.Knob.Type
}

// HasFlag tells whether mpitrace run has a flag for the setting.
func (k Knob) HasFlag() bool { return k.Flag != "" && k.Side != "internal" }
