// Package reusetrack turns what the ranks recorded about their message buffers
// into statistics of reuse, and owns the cost model that says when a buffer is
// better registered once than copied at every send.
//
//	summary := reusetrack.NewSummary(reusetrack.Options{Costs: costs})
//	for _, s := range result.Segments {
//		summary.Add(reusetrack.FromSegment(s))
//	}
//	fmt.Println(summary.Table1(segment.PathSend).ReusedPercent)
//
// The method is that of M. J. Rashti and A. Afsahi, "Exploiting Application
// Buffer Reuse to Improve MPI Small Message Transfer Protocols over
// RDMA-enabled Networks" (Cluster Computing 2011), the paper of 2009 before it,
// and chapter 5 of Rashti's thesis (Queen's University 2010). Equation numbers
// are those of the thesis.
//
// It owns: the rules of the usage table (Table, a twin of c/probe/reuse.h),
// statistics per rank and over ranks, the two tables that the paper prints for
// an application, the cost model and the form of measured costs, the rule by
// which a rank applies it while it sends (Sender, the reference of
// c/engine/reuse.c), and the measurement of costs on this node (measure.go, the
// only file that touches the machine).
//
// It must not contain: how anything is shown, reading of files other than
// costs, messages of a running job, or knowledge of registration caches and
// networks. Of this module it imports segment and internal/stats, nothing else.
package reusetrack
