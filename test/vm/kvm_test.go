package vm

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

func TestAccelerates(t *testing.T) {
	const intel = "processor\t: 0\nflags\t\t: fpu vme vmx aes\nbugs\t\t: none\n"
	amd := strings.ReplaceAll(intel, "vmx", "svm")
	for name, c := range map[string]struct {
		device  error
		cpuinfo string
		trial   error
		tried   bool
		want    bool
	}{
		"intel":             {cpuinfo: intel, tried: true, want: true},
		"amd":               {cpuinfo: amd, tried: true, want: true},
		"no device":         {device: fs.ErrNotExist, cpuinfo: intel},
		"device of others":  {device: fs.ErrPermission, cpuinfo: intel},
		"no flag":           {cpuinfo: strings.ReplaceAll(intel, " vmx", "")},
		"part of a flag":    {cpuinfo: strings.ReplaceAll(intel, "vmx", "avmx")},
		"not of the flags":  {cpuinfo: "\nvmx flags\t: vmx\n" + strings.ReplaceAll(intel, " vmx", "") + "power\t\t: svm\n"},
		"another machine":   {cpuinfo: "processor\t: 0\nFeatures\t: fp asimd\n"},
		"nothing known":     {cpuinfo: ""},
		"no guest comes up": {cpuinfo: intel, trial: errors.New("timed out"), tried: true},
	} {
		t.Run(name, func(t *testing.T) {
			var said strings.Builder
			tried := false
			got := accelerates(c.device, c.cpuinfo, func() error { tried = true; return c.trial }, &said)
			if got != c.want || tried != c.tried {
				t.Errorf("accelerates %v, tried %v, want %v and %v", got, tried, c.want, c.tried)
			}
			want := ""
			if c.trial != nil {
				want = "vm: kvm does not work here, so guests are emulated: timed out\n"
			}
			if said.String() != want {
				t.Errorf("said %q, want %q", said.String(), want)
			}
		})
	}
}
