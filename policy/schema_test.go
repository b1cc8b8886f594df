package policy

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"testing"
)

// valid is as much of JSON Schema as docs/policy.schema.json uses.
func valid(schema map[string]any, v any) bool {
	if c, ok := schema["const"]; ok && !reflect.DeepEqual(c, v) {
		return false
	}
	if list, ok := schema["enum"].([]any); ok && !anyOf(list, func(e any) bool { return reflect.DeepEqual(e, v) }) {
		return false
	}
	if list, ok := schema["anyOf"].([]any); ok && !anyOf(list, func(e any) bool { return valid(e.(map[string]any), v) }) {
		return false
	}
	switch t := v.(type) {
	case string:
		return allows(schema, "string") && (schema["pattern"] == nil || regexp.MustCompile(schema["pattern"].(string)).MatchString(t)) &&
			(schema["minLength"] == nil || t != "")
	case float64:
		return allows(schema, "integer") && t == float64(int64(t)) && (schema["minimum"] == nil || t >= schema["minimum"].(float64)) &&
			(schema["maximum"] == nil || t <= schema["maximum"].(float64))
	case []any:
		if !allows(schema, "array") || schema["minItems"] != nil && len(t) == 0 {
			return false
		}
		items, ok := schema["items"].(map[string]any)
		return !ok || !anyOf(t, func(e any) bool { return !valid(items, e) })
	case map[string]any:
		return allows(schema, "object") && validObject(schema, t)
	}
	return false
}

func validObject(schema, v map[string]any) bool {
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for name, value := range v {
		p, ok := properties[name].(map[string]any)
		if !ok || !valid(p, value) {
			return false
		}
	}
	return (schema["minProperties"] == nil || len(v) > 0) && !anyOf(required, func(e any) bool { return v[e.(string)] == nil })
}

func allows(schema map[string]any, kind string) bool {
	return schema["type"] == nil || schema["type"] == kind
}

func anyOf(list []any, ok func(any) bool) bool {
	for _, e := range list {
		if ok(e) {
			return true
		}
	}
	return false
}

// TestSchema: whatever is read is valid by the schema, so that an editor never
// marks what is right; and what the schema refuses is refused.
func TestSchema(t *testing.T) {
	text, err := os.ReadFile("../docs/policy.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(9, 10))
	values := []any{"auto", "copy", "reuse", "read", "16K", "1K..2K", "..5", "", "same-node", "send", "act", "off", "stop", "ud-first", "on", "rxe*", "halo", 0, 1, 25, 50, 100, 4096, 65536, 1 << 40, -1, 0.5, true, nil,
		[]any{}, []any{"copy", "reuse"}, []any{"read"}, []any{1}, map[string]any{}}
	object := func(words []Word, n int) map[string]any {
		o := map[string]any{}
		for range random.IntN(n) {
			o[words[random.IntN(len(words))].Name] = values[random.IntN(len(values))]
		}
		return o
	}
	good, refused := 0, 0
	for range 20_000 {
		file := object(settings, 3)
		file["schema"] = 1
		if random.IntN(3) == 0 {
			rule := map[string]any{"when": object(conditions, 3), "use": object(settings, 3)}
			if random.IntN(4) == 0 {
				rule["name"] = values[random.IntN(len(values))]
			}
			file["rules"] = []any{rule}
		}
		text, err := json.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		var again any
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatal(err)
		}
		_, err = ParseJSON("random", text)
		byEditor := valid(schema, again)
		if err == nil && !byEditor {
			t.Fatalf("the schema refuses %s", text)
		}
		if err == nil {
			good++
		}
		if !byEditor {
			refused++
		}
	}
	if good < 1000 || refused < 1000 {
		t.Errorf("%d good, %d refused by the schema: the test sees too little", good, refused)
	}
}
