package agent

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/mpitrace/mpitrace/exporter"
	"github.com/mpitrace/mpitrace/segment"
	"golang.org/x/sys/unix"
)

const (
	// startWithin is how long a process may take to fill its new segment.
	startWithin = 10 * time.Second
	// foreignIdle is after what time without a change a process of another
	// container, of which nothing else can be known, is taken for dead.
	foreignIdle = time.Hour
	// freshFor is how long a reading serves further readers of the page.
	freshFor = time.Second
)

// read reads the segments that may have changed, unless that was done just now.
func (k *keeper) read(fresh time.Duration) {
	k.reading.Lock()
	defer k.reading.Unlock()
	begin := k.now()
	k.mu.Lock()
	if !k.lastRun.IsZero() && begin.Sub(k.lastRun) < fresh {
		k.mu.Unlock()
		return
	}
	k.lastRun = begin
	k.mu.Unlock()
	k.readAll(func(*held) bool { return true })
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stats.ReadDuration = k.now().Sub(begin)
}

// readGone reads the segments that have just been removed.
func (k *keeper) readGone() {
	k.reading.Lock()
	defer k.reading.Unlock()
	k.readAll(func(h *held) bool { return h.gone })
}

// readAll reads those that may have changed and are wanted; reading is held.
func (k *keeper) readAll(wanted func(*held) bool) {
	begin, up := k.now(), uptimeNS()
	list := k.due(wanted)
	bytes := map[uint32]int64{}
	for _, h := range list {
		if bytes[h.uid] > k.limits.userBytes {
			continue // next time, before the others of this user
		}
		got := h.look(up)
		bytes[h.uid] += got.bytes
		k.mu.Lock()
		k.apply(h.held, got)
		k.mu.Unlock()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stats.ReadTotal += k.now().Sub(begin)
	k.endJobs()
}

// toRead is a segment with what of it may change meanwhile.
type toRead struct {
	*held
	file        *os.File
	read, moved time.Time
}

// due lists what is to be read, of each user what was not read for longest
// first.
func (k *keeper) due(wanted func(*held) bool) []toRead {
	k.mu.Lock()
	defer k.mu.Unlock()
	var list []toRead
	for _, j := range k.jobs {
		for _, h := range j.segments {
			if h.file != nil && !h.final && wanted(h) {
				list = append(list, toRead{h, h.file, h.read, h.moved})
			}
		}
	}
	slices.SortFunc(list, func(a, b toRead) int {
		return cmp.Or(cmp.Compare(a.uid, b.uid), a.read.Compare(b.read), cmp.Compare(a.name, b.name))
	})
	return list
}

// look is one reading of a segment.
type look struct {
	process exporter.Process
	header  segment.RawHeader
	alive   bool // may still change
	bytes   int64
	err     error
}

// look reads the segment; mu is not held. A process that is seen dead may have
// written after it was read: it is read once more.
func (h *toRead) look(uptimeNS uint64) look {
	var l look
	for range 2 {
		s, err := segment.ReadOpen(h.name, h.file, exporter.CounterSections...)
		if err != nil {
			l.bytes += segment.SectionsOffset
			l.alive, l.err = segment.AliveByName(h.name), err
			return l
		}
		l.bytes += int64(s.UsedBytes())
		if segment.Foreign(&s.Header) && time.Since(h.moved) < foreignIdle {
			s.Alive = true
		}
		state := s.Header.State
		l.header = s.Header
		l.alive = s.Alive && state != segment.StateExited && state != segment.StateExitedEarly
		if l.process, l.err = exporter.ProcessOf(s, uptimeNS); l.err != nil || l.alive {
			return l
		}
	}
	return l
}

// apply takes a reading over; mu is held.
func (k *keeper) apply(h *held, l look) {
	now := k.now()
	if h.file == nil {
		return // let go meanwhile
	}
	k.stats.Read++
	k.stats.ReadBytes += uint64(l.bytes)
	h.read = now
	h.final = !l.alive
	if l.err != nil {
		k.trouble(h, l.err, now)
		return
	}
	h.trouble = ""
	j := h.job
	growth := h.process.Raise(&l.process.Counters)
	moved := growth
	moved.WallNS, moved.MPINS = 0, 0 // pass by themselves, also in a call that hangs
	if moved != (exporter.Counters{}) {
		h.moved = now
	}
	counters, busy := h.process.Counters, h.process.BusyNS
	j.total.Add(&growth)
	total := k.total(h.uid)
	if h.good || !h.old {
		total.Add(&growth)
	}
	if !h.good && !h.old {
		total.Ranks++
	}
	h.process, h.good = l.process, true
	h.process.Counters = counters
	if l.process.State != exporter.StateRunning {
		h.process.BusyNS = max(busy, l.process.BusyNS) // also of the call that it died in
	}
	j.learn(&l.header)
}

// learn takes over what the first segment says of the job.
func (j *job) learn(header *segment.RawHeader) {
	if j.about == (about{}) {
		j.about = aboutOf(header)
	}
	if !j.named {
		j.origin = j.origin.or(originOfHeader(header))
	}
	if ns := header.RealtimeNS(header.FirstTicks); ns > 0 {
		if start := time.Unix(0, ns); j.start.IsZero() || start.Before(j.start) {
			j.start = start
		}
	}
}

// trouble notes why a segment could not be read, unless it is new: its process
// may not have filled it yet. What was read before stays.
func (k *keeper) trouble(h *held, err error, now time.Time) {
	var why refusal
	switch {
	case !h.good && !h.gone && now.Sub(h.since) < startWithin:
		h.final = false
		return
	case errors.Is(err, segment.ErrNotSegment):
		why, h.final = refusedNotSegment, true
	case errors.Is(err, segment.ErrVersion):
		why, h.final = refusedVersion, true
	case errors.Is(err, segment.ErrTruncated):
		why = refusedTruncated
	case errors.Is(err, segment.ErrCorrupt):
		why = refusedCorrupt
	case errors.Is(err, exporter.ErrImplausible):
		why = refusedImplausible
	default:
		k.fail(failedRead, err)
		return
	}
	if h.trouble != why {
		h.trouble = why
		k.refuse(why, h.name)
	}
}

// endJobs marks the jobs all of whose processes are over; mu is held.
func (k *keeper) endJobs() {
	for _, j := range k.jobs {
		if j.ended.IsZero() && j.over() && j.settled() {
			j.ended, j.scraped = k.now(), false
		}
	}
}

// over tells that nothing new comes from any process of the job.
func (j *job) over() bool {
	return !slices.ContainsFunc(j.segments, func(h *held) bool { return !h.final })
}

// settled tells that the last arrivals of the job have been compared.
func (j *job) settled() bool {
	return !slices.ContainsFunc(j.segments, func(h *held) bool { return !h.compared })
}

// uptimeNS is how long the machine has run, also while it was suspended.
func uptimeNS() uint64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 1 << 62
	}
	return uint64(ts.Nano())
}
