package exporter

import "time"

// Page is what one scrape shows: the jobs that its reader may see, and the agent.
type Page struct {
	Node  string // host name
	Jobs  []Job
	Total Node
	Agent Agent
	Worst int // how many ranks of each job to show by themselves; negative: all
}

// Job is a job and its ranks on this node.
type Job struct {
	ID, Step, User, Node, Run string // the labels of every figure
	Scheduler, Launcher       string
	MPI, Program              string
	Start                     time.Time // zero if not known
	Ended                     bool
	Total                     Counters  // of all processes that there ever were
	Ranks                     []Process // living ones, and those that are gone with their last figures
	Arrivals                  *Arrivals // nil: nothing compared yet
}

// Node is the sum over the jobs since the agent started.
type Node struct {
	Counters
	Jobs, Ranks uint64
}

// Agent is what the agent says of itself.
type Agent struct {
	Version                                string
	Held                                   int
	Read, ReadBytes, EventsLost, Unscraped uint64
	ReadDuration, ReadTotal, AnalysisTotal time.Duration
	Refused, Errors                        map[string]uint64 // by reason
}

// job adds a sample of a job.
func (s *sink) job(m metric, j *Job, value float64, labels ...string) {
	s.put(m, value, append([]string{j.ID, j.Step, j.User, j.Node, j.Run}, labels...)...)
}
