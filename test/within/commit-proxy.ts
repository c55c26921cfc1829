// A TCP proxy before PostgreSQL that cuts one connection: at once, or in its next message, which is the COMMIT if it is armed
// right before the transaction ends. The server knows a connection by the port of the proxy's own socket (inet_client_port).

import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** 'unsent': COMMIT never arrives. 'torn': half of it arrives. 'unanswered': it is carried out, and the answer is lost. */
export type Cut = 'now' | 'unsent' | 'torn' | 'unanswered'

export interface CommitProxy {
  readonly port: number
  cut(serverPort: number, how: Cut): void
  close(): Promise<void>
}

interface Line {
  readonly client: Socket
  readonly server: Socket
  armed: Cut | null
}

export async function commitProxy(target: { readonly host: string; readonly port: number }): Promise<CommitProxy> {
  const lines = new Map<number, Line>()
  const accept = createServer((client) => {
    const server = connect(target.port, target.host)
    const line: Line = { client, server, armed: null }
    for (const socket of [client, server]) socket.on('error', () => end(line)).on('close', () => end(line))
    server.once('connect', () => lines.set(server.localPort!, line))
    client.on('data', (piece) => {
      if (line.armed === 'unsent') return end(line)
      if (line.armed !== 'torn') return void server.write(piece)
      server.write(piece.subarray(0, piece.length >> 1), () => end(line))
    })
    server.on('data', (piece) => {
      if (line.armed === 'unanswered') end(line)
      else client.write(piece)
    })
  })
  await new Promise<void>((resolve) => accept.listen(0, '127.0.0.1', resolve))
  return {
    port: (accept.address() as AddressInfo).port,
    cut(serverPort, how) {
      const line = lines.get(serverPort)
      if (!line) throw new Error(`no connection goes through port ${serverPort}`)
      if (how === 'now') end(line)
      else line.armed = how
    },
    async close() {
      for (const line of lines.values()) end(line)
      await new Promise((resolve) => accept.close(resolve))
    },
  }

  function end({ client, server }: Line): void {
    if (server.localPort !== undefined) lines.delete(server.localPort)
    client.destroy()
    server.destroy()
  }
}
