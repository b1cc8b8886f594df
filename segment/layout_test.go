package segment

import (
	"reflect"
	"testing"
)

// layoutTypes is every generated struct by name.
var layoutTypes = map[string]reflect.Type{
	"RawHeader":   reflect.TypeFor[RawHeader](),
	"RawSection":  reflect.TypeFor[RawSection](),
	"RawThread":   reflect.TypeFor[RawThread](),
	"RawSite":     reflect.TypeFor[RawSite](),
	"RawFunction": reflect.TypeFor[RawFunction](),
	"RawPeer":     reflect.TypeFor[RawPeer](),
	"RawTotal":    reflect.TypeFor[RawTotal](),
	"RawComm":     reflect.TypeFor[RawComm](),
	"RawDatatype": reflect.TypeFor[RawDatatype](),
	"RawModule":   reflect.TypeFor[RawModule](),
	"RawStack":    reflect.TypeFor[RawStack](),
	"RawPhase":    reflect.TypeFor[RawPhase](),
	"RawNodeFile": reflect.TypeFor[RawNodeFile](),
	"RawRecord":   reflect.TypeFor[RawRecord](),

	"RawArrival":      reflect.TypeFor[RawArrival](),
	"RawArrivalClass": reflect.TypeFor[RawArrivalClass](),
	"RawBuffer":       reflect.TypeFor[RawBuffer](),
	"RawReuse":        reflect.TypeFor[RawReuse](),
	"RawEvent":        reflect.TypeFor[RawEvent](),
	"RawTraceFile":    reflect.TypeFor[RawTraceFile](),

	"RawAct":         reflect.TypeFor[RawAct](),
	"RawActCount":    reflect.TypeFor[RawActCount](),
	"RawActDecision": reflect.TypeFor[RawActDecision](),
}

// TestLayout compares the places that the spec gives with those that the
// compiler gives, field by field: decode copies bytes on the strength of it.
func TestLayout(t *testing.T) {
	if len(placements) != len(layoutTypes) {
		t.Errorf("the spec has %d structs, this test knows %d: add the new ones to layoutTypes", len(placements), len(layoutTypes))
	}
	for name, want := range placements {
		typ, ok := layoutTypes[name]
		if !ok {
			t.Errorf("%s is missing in layoutTypes", name)
			continue
		}
		if typ.Size() != want.size {
			t.Errorf("%s has %d bytes, the spec says %d", name, typ.Size(), want.size)
		}
		covered := uintptr(0)
		for _, field := range want.fields {
			got, ok := typ.FieldByName(field.name)
			switch {
			case !ok:
				t.Errorf("%s.%s does not exist", name, field.name)
			case got.Offset != field.offset || got.Type.Size() != field.size:
				t.Errorf("%s.%s lies at %d with %d bytes, the spec says %d with %d",
					name, field.name, got.Offset, got.Type.Size(), field.offset, field.size)
			}
			if field.offset != covered {
				t.Errorf("%s.%s: hidden padding before byte %d", name, field.name, field.offset)
			}
			covered = field.offset + field.size
		}
	}
}
