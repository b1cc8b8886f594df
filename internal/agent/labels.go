package agent

import (
	"bytes"
	"cmp"
	"os"
	"path"
	"regexp"
	"strings"
	"syscall"

	"github.com/mpitrace/mpitrace/segment"
)

// origin is what names a job to the people who run it.
type origin struct{ scheduler, id, step string }

// labelMost is the longest text taken over from an environment.
const labelMost = 64

var notInLabel = regexp.MustCompile(`[^A-Za-z0-9_.:@\[\]+-]`)

// label makes a text of a user fit to be a label: short, one line, plain.
func label(text string) string {
	return notInLabel.ReplaceAllString(text[:min(len(text), labelMost)], "_")
}

// processOf opens the /proc directory of the process that a segment is named
// after (segment.AliveByName); false if there is none.
func processOf(name string) (*os.Root, bool) {
	pid, _, _ := strings.Cut(name, "-")
	if !segment.AliveByName(name) {
		return nil, false
	}
	dir, err := os.OpenRoot("/proc/" + pid)
	if err != nil {
		return nil, false
	}
	// Nobody else can have been given the pid in between.
	if !segment.AliveByName(name) {
		dir.Close()
		return nil, false
	}
	return dir, true
}

// environOf reads the environment of the process that a segment is named after,
// if it belongs to the user; else nil.
func environOf(name string, uid uint32) []byte {
	dir, ok := processOf(name)
	if !ok {
		return nil
	}
	defer dir.Close()
	info, err := dir.Stat(".")
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != uid {
		return nil
	}
	environ, err := dir.ReadFile("environ")
	if err != nil {
		return nil
	}
	return environ
}

// originOf is what an environment says, the zero origin if nothing.
func originOf(environ []byte) origin {
	values := map[string]string{}
	for _, entry := range bytes.Split(environ, []byte{0}) {
		if name, value, ok := bytes.Cut(entry, []byte{'='}); ok && wanted[string(name)] && values[string(name)] == "" {
			values[string(name)] = label(string(value))
		}
	}
	switch {
	case values["SLURM_JOB_ID"] != "":
		return origin{"slurm", values["SLURM_JOB_ID"], slurmStep(values["SLURM_STEP_ID"])}
	case values["PBS_JOBID"] != "":
		return origin{scheduler: "pbs", id: values["PBS_JOBID"]}
	case values["LSB_JOBID"] != "":
		return origin{scheduler: "lsf", id: values["LSB_JOBID"], step: strings.TrimPrefix(values["LSB_JOBINDEX"], "0")}
	case values["PMIX_NAMESPACE"] != "":
		return origin{scheduler: "pmix", id: values["PMIX_NAMESPACE"]}
	}
	return origin{}
}

// wanted are the variables looked at; nothing else of an environment is kept.
var wanted = map[string]bool{
	"SLURM_JOB_ID": true, "SLURM_STEP_ID": true, "PBS_JOBID": true, "LSB_JOBID": true, "LSB_JOBINDEX": true, "PMIX_NAMESPACE": true,
}

// slurmStep names the steps that Slurm numbers from the other end (slurm.h).
func slurmStep(id string) string {
	switch id {
	case "4294967291":
		return "batch"
	case "4294967290":
		return "interactive"
	}
	return id
}

// originOfHeader is what the library noted of the job: from its id, when the
// launcher gave it, or from the world.
func originOfHeader(h *segment.RawHeader) origin {
	if job, ok := strings.CutPrefix(h.JobID(), "slurm-"); ok {
		id, step, _ := strings.Cut(job, ".")
		return origin{"slurm", label(id), slurmStep(label(step))}
	}
	if segment.Text(h.Launcher[:]) == "slurm" {
		world := strings.Split(strings.TrimPrefix(h.WorldID(), "slurm.pmix."), ".")
		if len(world) == 2 {
			return origin{"slurm", label(world[0]), slurmStep(label(world[1]))}
		}
	}
	if job, ok := strings.CutPrefix(h.JobID(), "pmix-"); ok {
		return origin{scheduler: "pmix", id: label(job)}
	}
	return origin{}
}

// or is the first of two origins that says something.
func (o origin) or(other origin) origin {
	if o.id == "" {
		return other
	}
	return o
}

// families are the values of the label mpi.
var families = map[uint32]string{segment.MPIFamilyOpenMPI: "openmpi", segment.MPIFamilyMPICH: "mpich"}

// about is what the first segment of a job says of it.
type about struct{ launcher, mpi, program string }

func aboutOf(h *segment.RawHeader) about {
	program := path.Base(cmp.Or(segment.Text(h.Executable[:]), "unknown"))
	return about{label(segment.Text(h.Launcher[:])), cmp.Or(families[h.MPIFamily], "unknown"), label(program)}
}
