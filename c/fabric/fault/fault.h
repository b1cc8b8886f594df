/* fault.h: a layer over any provider that lets things go wrong as a script
 * says (docs/fabric-faults.md). */
#ifndef MPITRACE_FABRIC_FAULT_H
#define MPITRACE_FABRIC_FAULT_H

#include "../provider.h"

/* Opens the device under a layer that follows options->faults. MT_EINVAL: the
 * script is wrong; say() gets line and reason. */
enum mt_status mt_fault_open(const struct mt_fabric_device *device,
                             const struct mt_fabric_options *options,
                             struct mt_fabric_context **context_p);

#endif
