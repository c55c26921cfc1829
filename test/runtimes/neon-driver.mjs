// Neon's driver under the name `pg`, with a proxy from WebSocket to TCP in place of Neon's own: the address is in WS_PROXY.

import { neonConfig } from '@neondatabase/serverless'
import WebSocket from 'ws'

neonConfig.webSocketConstructor = WebSocket
neonConfig.wsProxy = () => process.env.WS_PROXY
neonConfig.useSecureWebSocket = false
neonConfig.pipelineConnect = false

export * from '@neondatabase/serverless'
