package stale

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// TestTemporary: a buffer is found registered while another one is allocated and
// freed in every iteration, with the kernel's monitor: it sees that the temporary
// one goes, and that the buffer stays.
func TestTemporary(t *testing.T) {
	t.Parallel()
	socket, exe := helper(t), filepath.Join(t.TempDir(), "temporary")
	compile(t, "gcc", exe, "../../bench/regcache/programs/temporary.c", "../../c/regcache/front.c")
	share := func(malloc, place string) float64 {
		cmd := exec.Command(exe, malloc, place, "kernel", strconv.Itoa(max(*cycles, 2000)))
		cmd.Env = mpijob.Environ("SOCKET=" + socket)
		out, err := cmd.Output()
		found, bad := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		if err != nil || bad != nil {
			t.Fatalf("%s %s: %v, %q", malloc, place, err, out)
		}
		t.Logf("%s %s: %.4f of the look-ups found it", malloc, place, found)
		return found
	}
	if found := share("adaptive", "near"); found < 0.99 {
		t.Errorf("malloc as it comes: %v of the look-ups found it, want 0.99", found)
	}
	if found := share("mapped", "far"); found < 0.99 {
		t.Errorf("each temporary a mapping: %v of the look-ups found it, want 0.99", found)
	}
	if found := share("mapped", "near"); found > 0.01 {
		t.Errorf("each temporary a mapping in the buffer's bucket: %v of the look-ups found it, want none: nothing was seen", found)
	}
}
