package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mpitrace/mpitrace/exporter"
	"github.com/mpitrace/mpitrace/segment"
	"golang.org/x/sys/unix"
)

// limits bound what one user, and all, can make the agent hold.
type limits struct {
	userJobs, userSegments int
	userWatches            int // job directories that the kernel tells of at once
	segments               int
	userBases, bases       int   // base directories
	jobProcesses           int   // of which last figures are kept one by one
	userBytes              int64 // read of the segments of one user at one reading
	arrivals               int   // samples compared of one job
	ranks                  int   // ranks compared of one job
}

var defaultLimits = limits{
	userJobs: 1024, userSegments: 4096, userWatches: 4096, segments: 16384, userBases: 64, bases: 4096, jobProcesses: 4096,
	userBytes: 64 << 20, arrivals: 1 << 18, ranks: 1024,
}

// keeper knows all jobs and holds their segments open.
//
// Locks: reading and comparing are taken before mu. mu is never held while a segment is read
// or compared, so that a new segment is opened at once.
type keeper struct {
	places  []place
	limits  limits
	keep    time.Duration
	log     *slog.Logger
	watcher *watcher
	now     func() time.Time
	changed chan struct{} // a segment was removed: see whether its job has ended

	reading   sync.Mutex // one reading at a time
	comparing sync.Mutex // one comparison at a time

	mu       sync.Mutex // guards all below, and what it points to
	started  bool       // the first look at the places is over
	watched  map[int]any
	bases    map[string]*base
	jobs     map[jobKey]*job
	held     map[uint32]int // segments by user
	totals   map[uint32]*exporter.Node
	stats    exporter.Agent
	badBases map[string]refusal
	lastRun  time.Time // of a reading
	rest     time.Time // until when arrivals are not compared
}

// parentDir is the path of a directory that base directories may appear in.
type parentDir string

// base is a base directory: the job directories of one user.
type base struct {
	place *place
	name  string
	dir   *os.File
	uid   uint32
	jobs  map[string]*jobDir
	bad   map[string]bool // names refused
}

// jobDir is a directory with the segments of one job.
type jobDir struct {
	base     *base
	name     string
	changed  time.Time
	segments map[string]*held // by name
	done     map[string]bool  // names refused, or that nothing new comes from
}

type jobKey struct {
	uid uint32
	run string
}

// job is all processes of one job on this node.
type job struct {
	key      jobKey
	origin   origin
	named    bool // its labels have been shown: they stay
	user     string
	about    about
	start    time.Time
	total    exporter.Counters
	segments []*held
	arrivals *exporter.Arrivals
	past     *exporter.Arrivals // of them, those of worlds that are over and closed
	compared time.Time
	large    bool      // too large to be compared
	ended    time.Time // zero: it has processes that may go on
	scraped  bool      // since it ended
}

// held is a segment that is, or was, held open.
type held struct {
	job      *job
	uid      uint32
	name     string
	file     *os.File // nil: nothing new comes from it
	since    time.Time
	old      bool // was there before the agent: its past is not counted for the node
	gone     bool // removed
	final    bool // its process will not change it any more
	good     bool // process is what a reading gave
	trouble  refusal
	process  exporter.Process
	read     time.Time
	moved    time.Time // when a reading last gave other figures
	compared bool      // after it was final
}

func newKeeper(places []place, keep time.Duration, log *slog.Logger) (*keeper, error) {
	w, err := newWatcher()
	if err != nil {
		return nil, err
	}
	refused, failed := map[string]uint64{}, map[string]uint64{}
	for _, why := range refusals {
		refused[string(why)] = 0
	}
	for _, reason := range failures {
		failed[reason] = 0
	}
	return &keeper{
		places: places, limits: defaultLimits, keep: keep, log: log, watcher: w, now: time.Now, changed: make(chan struct{}, 1),
		watched: map[int]any{}, bases: map[string]*base{}, jobs: map[jobKey]*job{}, held: map[uint32]int{}, totals: map[uint32]*exporter.Node{},
		badBases: map[string]refusal{},
		stats:    exporter.Agent{Refused: refused, Errors: failed},
	}, nil
}

// follow opens what comes, until the watcher is closed.
func (k *keeper) follow() {
	for {
		events, err := k.watcher.next()
		if err != nil {
			if !errors.Is(err, os.ErrClosed) {
				k.log.Error("inotify", "error", err)
			}
			return
		}
		k.mu.Lock()
		for _, e := range events {
			k.handle(e)
		}
		k.mu.Unlock()
	}
}

// handle takes one event; mu is held.
func (k *keeper) handle(e event) {
	if e.mask&unix.IN_Q_OVERFLOW != 0 {
		k.stats.EventsLost++
		k.scan()
		return
	}
	target, ok := k.watched[e.watch]
	if e.mask&unix.IN_IGNORED != 0 {
		delete(k.watched, e.watch)
	}
	if !ok {
		return
	}
	switch t := target.(type) {
	case parentDir:
		for i := range k.places {
			if p := &k.places[i]; (e.came() || e.went()) && p.parent == string(t) && p.holds(e.name) {
				k.lookAt(p, e.name)
			}
		}
	case *base:
		switch {
		case e.came():
			k.scanJob(t, e.name)
		case e.went():
			k.forget(t, e.name)
		}
	case *jobDir:
		switch {
		case e.came() && strings.HasSuffix(e.name, segment.FileSuffix):
			k.take(t, e.name)
		case e.went():
			k.release(t, e.name)
		}
	}
}

// release notes that a segment has lost its name. It is read once more, by
// its descriptor.
func (k *keeper) release(d *jobDir, name string) {
	delete(d.done, name)
	h := d.segments[name]
	if h == nil {
		return
	}
	h.gone = true
	delete(d.segments, name)
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// forget drops a job directory that is gone.
func (k *keeper) forget(b *base, name string) {
	delete(b.bad, name)
	d := b.jobs[name]
	if d == nil {
		return
	}
	for segment := range d.segments {
		k.release(d, segment)
	}
	delete(b.jobs, name)
}

// refuse counts a file that is not trusted, once.
func (k *keeper) refuse(why refusal, path string) {
	k.stats.Refused[string(why)]++
	k.log.Debug("refused", "path", path, "reason", string(why))
}

// The reasons of failures (docs/agent.md).
const (
	failedOpen         = "open"
	failedDescriptors  = "descriptors"
	failedDirectory    = "directory"
	failedWatch        = "watch"
	failedRead         = "read"
	failedCompareLimit = "compare_limit"
	failedTextfile     = "textfile"
)

var failures = []string{failedOpen, failedDescriptors, failedDirectory, failedWatch, failedRead, failedCompareLimit, failedTextfile}

// fail counts what could not be done.
func (k *keeper) fail(reason string, err error) {
	k.stats.Errors[reason]++
	k.log.Warn(reason, "error", err)
}

// take opens a new segment of a job and holds it.
func (k *keeper) take(d *jobDir, name string) {
	if d.segments[name] != nil || d.done[name] {
		return
	}
	dir, err := openDirectory(d.base.dir, d.name, d.base.uid)
	if err != nil {
		k.failOpen(err)
		return
	}
	defer dir.Close()
	k.takeFrom(d, dir, name)
}

// takeFrom is take with the directory open.
func (k *keeper) takeFrom(d *jobDir, dir *os.File, name string) {
	if d.segments[name] != nil || d.done[name] {
		return
	}
	uid := d.base.uid
	f, err := openSegment(dir, name, uid)
	if err == nil && (k.held[uid] >= k.limits.userSegments || k.heldAll() >= k.limits.segments) {
		f.Close()
		err = refusedLimit
	}
	var why refusal
	switch {
	case errors.As(err, &why):
		d.done[name] = true
		k.refuse(why, dir.Name()+"/"+name)
		return
	case err != nil:
		k.failOpen(err)
		return
	}
	j := k.jobOf(d)
	if j == nil || !k.room(j) {
		f.Close()
		d.done[name] = true
		k.refuse(refusedLimit, f.Name())
		return
	}
	h := &held{job: j, uid: uid, name: f.Name(), file: f, since: k.now(), old: !k.started, moved: k.now()}
	d.segments[name] = h
	j.segments = append(j.segments, h)
	j.ended, j.scraped = time.Time{}, false
	k.held[uid]++
	if j.origin.id == "" && !j.named {
		j.origin = originOf(environOf(name, uid))
	}
}

// failOpen counts an error of opening; what is gone by now is none.
func (k *keeper) failOpen(err error) {
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ESTALE):
	case errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE):
		k.fail(failedDescriptors, err)
	default:
		k.fail(failedOpen, err)
	}
}

func (k *keeper) heldAll() int {
	n := 0
	for _, held := range k.held {
		n += held
	}
	return n
}

// jobOf finds or makes the job of a directory; nil: the user has too many.
func (k *keeper) jobOf(d *jobDir) *job {
	key := jobKey{d.base.uid, d.name}
	if j := k.jobs[key]; j != nil {
		return j
	}
	if k.jobsOf(key.uid) >= k.limits.userJobs && !k.dropOldest(key.uid) {
		return nil
	}
	j := &job{key: key}
	k.jobs[key] = j
	if k.started {
		k.total(key.uid).Jobs++
	}
	return j
}

// begin has a first look. Jobs that are over by then ended before the agent, and
// are left alone.
func (k *keeper) begin() {
	k.mu.Lock()
	k.scan()
	k.mu.Unlock()
	k.read(0)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, j := range k.jobs {
		if j.over() {
			k.drop(j)
		}
	}
	k.started = true
}

// drop lets a job go. Segments of it that still lie there are not taken again.
func (k *keeper) drop(j *job) {
	for _, h := range j.segments {
		k.closeSegment(h)
	}
	for _, b := range k.bases {
		d := b.jobs[j.key.run]
		if d == nil || b.uid != j.key.uid {
			continue
		}
		for name, h := range d.segments {
			if h.job == j {
				delete(d.segments, name)
				d.done[name] = true
			}
		}
	}
	delete(k.jobs, j.key)
}

// unscrapedFor is how many times as long as others a job stays on the page that
// nobody has read since it ended.
const unscrapedFor = 10

// retire drops jobs that ended long enough ago.
func (k *keeper) retire() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, j := range k.jobs {
		age := k.now().Sub(j.ended)
		if j.ended.IsZero() || age < k.keep || !j.scraped && j.good() && age < unscrapedFor*k.keep {
			continue
		}
		k.dropEnded(j)
	}
}

func (k *keeper) dropEnded(j *job) {
	if !j.scraped && j.good() {
		k.stats.Unscraped++
	}
	k.drop(j)
}

// dropOldest drops the job of a user that ended first; false if none has.
func (k *keeper) dropOldest(uid uint32) bool {
	var oldest *job
	for _, j := range k.jobs {
		if j.key.uid == uid && !j.ended.IsZero() && (oldest == nil || j.ended.Before(oldest.ended)) {
			oldest = j
		}
	}
	if oldest != nil {
		k.dropEnded(oldest)
	}
	return oldest != nil
}

func (k *keeper) jobsOf(uid uint32) int {
	n := 0
	for key := range k.jobs {
		if key.uid == uid {
			n++
		}
	}
	return n
}

// total is the sum over the jobs of a user.
func (k *keeper) total(uid uint32) *exporter.Node {
	t := k.totals[uid]
	if t == nil {
		t = &exporter.Node{}
		k.totals[uid] = t
	}
	return t
}

// room makes room for one more process of a job: what a process that is over
// has counted stays in the total, its own figures go.
func (k *keeper) room(j *job) bool {
	if len(j.segments) < k.limits.jobProcesses {
		return true
	}
	for i, h := range j.segments {
		if h.final {
			k.closeSegment(h)
			j.segments = append(j.segments[:i:i], j.segments[i+1:]...)
			return true
		}
	}
	return false
}

// closeSegment lets a segment go; its last figures stay.
func (k *keeper) closeSegment(h *held) {
	if h.file == nil {
		return
	}
	h.file.Close()
	h.file = nil
	if k.held[h.uid]--; k.held[h.uid] == 0 {
		delete(k.held, h.uid)
	}
}

// close ends the keeper.
func (k *keeper) close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, j := range k.jobs {
		for _, h := range j.segments {
			k.closeSegment(h)
		}
	}
	for _, b := range k.bases {
		b.dir.Close()
	}
	if err := k.watcher.Close(); err != nil {
		return fmt.Errorf("inotify: %w", err)
	}
	return nil
}
