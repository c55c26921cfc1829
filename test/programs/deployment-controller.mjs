// The controller of examples/deployments.ts in a process of its own, to be killed. Argument: store URL.

import { runController } from '../../examples/deployments.ts'

if (process.argv[1]?.endsWith('deployment-controller.mjs')) await runController(process.argv[2])
