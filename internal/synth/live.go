package synth

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"github.com/mpitrace/mpitrace/segment"
	"golang.org/x/sys/unix"
)

// Live makes the segment that of a living process of this machine, which has
// been running for as long as the solver runs and is not at its end.
func (s *Segment) Live(pid int) error {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return err
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return fmt.Errorf("/proc/%d/stat: %q", pid, stat)
	}
	h := &s.Header
	if h.PIDStart, err = strconv.ParseUint(string(fields[19]), 10, 64); err != nil {
		return err
	}
	var namespace unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &namespace); err != nil {
		return err
	}
	var now, real unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &now); err != nil {
		return err
	}
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &real); err != nil {
		return err
	}
	SetText(h.BootID[:], string(bytes.TrimSpace(boot)))
	h.PID, h.PIDNamespace, h.State = uint32(pid), namespace.Ino, segment.StateRunning
	h.FirstMonotonicNS, h.FirstRealtimeNS = uint64(now.Nano())-wallNS, uint64(real.Nano())-wallNS
	h.LastTicks, h.LastMonotonicNS = Ticks(wallNS), uint64(now.Nano())
	h.FinalizeEnterTicks, h.FinalizeExitTicks, h.ExitTicks = 0, 0, 0
	return nil
}
