// Package agent watches the jobs of a node and shows them to Prometheus. It owns
// where segments are looked for, how long they are held, whose are read, who may
// see what, and the ways out: HTTP and text files.
//
//	a, err := agent.New(agent.Options{AllUsers: true, Listen: []string{":9464"}})
//	err = a.Run(ctx)
//
// A segment is opened as soon as the kernel tells of it (inotify) and stays open:
// a file in shared memory can be read by its descriptor after the last process of
// the job has removed it. So the figures of the shortest of jobs are whole,
// although nobody but its own processes and this one ever knew of its files.
//
// Files: places.go finds base directories, open.go opens without trust in what
// lies there, inotify.go, keeper.go and scan.go find segments, read.go reads
// them, compare.go has arrivals compared, page.go makes the page of a reader,
// serve.go and textfile.go hand it out, labels.go and users.go name jobs.
//
// It must not contain: what a metric means or is computed from (exporter), the
// bytes of a segment (segment), command lines.
package agent
