package arrival

// share is what one rank lost in one instance, in ns:
// blocked = waiting + beyond + unclaimed.
type share struct {
	blocked, waiting, beyond, unclaimed float64
	cause                               int // member it waited for; -1 for none, or if the bound leaves it open
}

// costs tells for each member how long it waited for whom; false if nothing is
// known of whom it depends on, and then all blocked time is beyond.
func (a *Analysis) costs(in *instance, op operation, members []member, out []share) ([]share, bool) {
	out = out[:0]
	for i := range members {
		m := &members[i]
		out = append(out, share{blocked: m.exit - m.wait, beyond: m.exit - m.wait, cause: -1})
	}
	switch op.dependency {
	case DependencyAllToAll:
		latest := latestActive(members)
		if op.irregular && !a.synchronised(members, latest) {
			return out, false
		}
		contested := a.contested(members, latest)
		for i := range members {
			a.charge(members, out, i, latest, contested)
		}
	case DependencyOneToAll, DependencyAllToOne:
		root := memberOf(members, in.root)
		if root < 0 {
			return out, false
		}
		a.chargeRooted(op, members, out, root)
	case DependencyPrefix:
		a.chargePrefix(members, out)
	default:
		return out, false
	}
	return out, true
}

func (a *Analysis) chargeRooted(op operation, members []member, out []share, root int) {
	if op.dependency == DependencyAllToOne {
		latest := latestActive(members)
		a.charge(members, out, root, latest, a.contested(members, latest))
		return
	}
	for i := range members {
		if members[i].active {
			a.charge(members, out, i, root, false)
		}
	}
}

// chargePrefix follows the latest and the second of the ranks so far.
func (a *Analysis) chargePrefix(members []member, out []share) {
	bound := a.boundOf(members)
	latest, second := -1, -1
	for i := range members {
		contested := second >= 0 && members[latest].enter-members[second].enter <= bound
		a.charge(members, out, i, latest, contested)
		switch m := &members[i]; {
		case !m.active:
		case latest < 0 || m.enter > members[latest].enter:
			latest, second = i, latest
		case second < 0 || m.enter > members[second].enter:
			second = i
		}
	}
}

// contested tells that another rank may have been as late as the latest.
func (a *Analysis) contested(members []member, latest int) bool {
	for i := range members {
		if i != latest && members[i].active && members[latest].enter-members[i].enter <= a.uncertainty(&members[i], &members[latest]) {
			return true
		}
	}
	return false
}

// charge splits the blocked time of member i, which needs the arrival of
// member needed:
//
//	waiting = max(0, min(exit, needed arrival) - wait)
func (a *Analysis) charge(members []member, out []share, i, needed int, contested bool) {
	if needed < 0 || needed == i {
		return
	}
	m, late := &members[i], &members[needed]
	waiting := min(m.exit, late.enter) - m.wait
	if waiting <= 0 {
		return
	}
	out[i].beyond = out[i].blocked - waiting
	if waiting <= a.uncertainty(m, late) {
		out[i].unclaimed = waiting
		return
	}
	out[i].waiting = waiting
	if !contested {
		out[i].cause = needed
	}
}

// latestActive is the last to arrive of those with data, -1 without any.
func latestActive(members []member) int {
	latest := -1
	for i := range members {
		if members[i].active && (latest < 0 || members[i].enter > members[latest].enter) {
			latest = i
		}
	}
	return latest
}

// synchronised tells that nobody was seen to leave before the last arrived.
func (a *Analysis) synchronised(members []member, latest int) bool {
	for i := range members {
		if latest >= 0 && members[i].exit < members[latest].enter-a.uncertainty(&members[i], &members[latest]) {
			return false
		}
	}
	return true
}

func memberOf(members []member, rank int32) int {
	for i := range members {
		if members[i].rank == rank {
			return i
		}
	}
	return -1
}
