// Every route of the API.

import type { Route } from '../route.ts'
import { actionRoutes } from './actions.ts'
import { nxRoutes } from './caches/nx.ts'
import { plainRoutes } from './caches/plain.ts'
import { turboRoutes } from './caches/turbo.ts'
import { webdavRoutes } from './caches/webdav.ts'
import { configRoutes } from './configs.ts'
import { feedRoutes } from './feed.ts'
import { kubernetesRoutes } from './kubernetes/index.ts'
import { mcpRoutes } from './mcp.ts'
import { remoteRoutes } from './remote.ts'
import { runRoutes } from './runs.ts'
import { searchRoutes } from './search.ts'
import { sidecarRoutes } from './sidecar.ts'
import { systemRoutes } from './system.ts'
import { timelineRoutes } from './timelines.ts'
import { transferRoutes } from './transfer.ts'
import { uploadRoutes } from './uploads.ts'
import { lookRoutes } from './views.ts'

export const routes: readonly Route[] = [
  ...systemRoutes,
  ...timelineRoutes,
  ...searchRoutes,
  ...lookRoutes,
  ...actionRoutes,
  ...feedRoutes,
  ...sidecarRoutes,
  ...runRoutes,
  ...remoteRoutes,
  ...transferRoutes,
  ...uploadRoutes,
  ...configRoutes,
  ...kubernetesRoutes,
  ...mcpRoutes,
  ...turboRoutes,
  ...nxRoutes,
  ...plainRoutes,
  ...webdavRoutes,
]
