package memmon

import (
	"errors"
	"testing"
)

// TestPreemption: what is said by the kernel that runs is stronger than what it was
// started with, and that than what it was built with.
func TestPreemption(t *testing.T) {
	const dynamic = "#1 SMP PREEMPT_DYNAMIC Debian 6.1"
	for _, c := range []struct {
		texts kernelTexts
		want  string
	}{
		{kernelTexts{version: "#1 SMP Thu Jan 1"}, "none"},
		{kernelTexts{version: "#1 SMP PREEMPT Thu Jan 1"}, "full"},
		{kernelTexts{version: "#1 SMP PREEMPT Thu Jan 1", chosen: "none (voluntary) full\n"}, "voluntary"}, // RHEL 9.0
		{kernelTexts{version: "#1 SMP PREEMPT_RT Thu Jan 1", chosen: "(none) voluntary full\n"}, "rt"},
		{kernelTexts{version: dynamic, chosen: "none voluntary (full) lazy\n", command: "preempt=none"}, "full"},
		{kernelTexts{version: dynamic, chosen: "(none) voluntary full \n", config: "\nCONFIG_PREEMPT=y\n"}, "none"},
		{kernelTexts{version: dynamic, command: "quiet preempt=voluntary\n", config: "\n# CONFIG_PREEMPT_VOLUNTARY is not set\nCONFIG_PREEMPT=y\n"}, "voluntary"},
		{kernelTexts{version: dynamic, command: "preempt=none preempt=full", config: "\nCONFIG_PREEMPT_NONE=y\n"}, "full"},
		{kernelTexts{version: dynamic, command: "preempt=none", config: "\nCONFIG_PREEMPT_LAZY=y\n"}, "lazy"}, // it cannot be none
		{kernelTexts{version: dynamic, config: "\n# CONFIG_PREEMPT is not set\nCONFIG_PREEMPT_NONE=y\nCONFIG_PREEMPT_DYNAMIC=y\n"}, "none"},
		{kernelTexts{version: dynamic, config: "\nCONFIG_PREEMPT_DYNAMIC=y\nCONFIG_PREEMPT_LAZY=y\n"}, "lazy"},
		{kernelTexts{version: dynamic, command: "preempt=none"}, ""},
		{kernelTexts{version: dynamic}, ""},
	} {
		got := c.texts.model()
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.texts, got, c.want)
		}
		var refused *NotSupportedError
		if good := got == "none" || got == "voluntary"; good == errors.As(c.texts.refuse(), &refused) {
			t.Errorf("%+v: %v", c.texts, c.texts.refuse())
		}
	}
}
