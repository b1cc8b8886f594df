package synth

import (
	"bytes"
	"fmt"
	"os"

	"github.com/mpitrace/mpitrace/segment"
	"golang.org/x/sys/unix"
)

// Live makes the segment that of this very process, which is between MPI_Init
// and MPI_Finalize.
func (s *Segment) Live() error {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	var namespace unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &namespace); err != nil {
		return fmt.Errorf("/proc/self/ns/pid: %w", err)
	}
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return err
	}
	// The second field, the command, may hold blanks and parentheses.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	h := &s.Header
	if _, err := fmt.Sscan(string(fields[19]), &h.PIDStart); err != nil {
		return fmt.Errorf("/proc/self/stat: %w", err)
	}
	SetText(h.BootID[:], string(bytes.TrimSpace(boot)))
	h.PID, h.PIDNamespace = uint32(os.Getpid()), namespace.Ino
	h.State, h.FinalizeEnterTicks, h.FinalizeExitTicks, h.ExitTicks = segment.StateRunning, 0, 0, 0
	return nil
}
