// A TCP proxy that cuts connections in the middle: after a number of bytes from the client that chance chooses, both sides are
// reset, as a mobile line does it.

import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export interface CuttingProxy {
  readonly port: number
  /** Connections that were cut so far. */
  readonly cuts: number
  /** Resets all open connections. */
  cut(): void
  /** Lets everything through from now on. */
  calm(): void
  close(): Promise<void>
}

/** `bytesOf`: after how many bytes the next connection is cut; null: it is not. */
export async function cuttingProxy(target: number, bytesOf: () => number | null): Promise<CuttingProxy> {
  const open = new Set<Socket>()
  let cuts = 0
  let isCalm = false
  const server = createServer((client) => {
    const upstream = connect(target, '127.0.0.1')
    let left = isCalm ? null : bytesOf()
    let isCut = false
    const end = () => {
      client.destroy()
      upstream.destroy()
    }
    for (const socket of [client, upstream]) {
      open.add(socket)
      socket.on('error', end).on('close', () => {
        open.delete(socket)
        end()
      })
    }
    client.on('data', (piece) => {
      // Nothing may follow the cut: no line loses bytes in the middle.
      if (isCut) return
      if (left !== null && !isCalm && piece.length >= left) {
        cuts += 1
        isCut = true
        upstream.write(piece.subarray(0, left), () => {
          client.resetAndDestroy()
          upstream.resetAndDestroy()
        })
        return
      }
      if (left !== null) left -= piece.length
      if (!upstream.write(piece)) {
        client.pause()
        upstream.once('drain', () => client.resume())
      }
    })
    upstream.pipe(client)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    get cuts() {
      return cuts
    },
    cut() {
      for (const socket of open) socket.resetAndDestroy()
    },
    calm() {
      isCalm = true
    },
    async close() {
      for (const socket of open) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
