// PGlite behind a socket: `node pglite-server.mjs MODULE` prints the port of the server, where MODULE is the file of
// @electric-sql/pglite-socket, and stays.

import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const [, , socket] = process.argv
const beside = createRequire(socket)
const { PGLiteSocketServer } = await import(pathToFileURL(socket).href)
const { PGlite } = await import(pathToFileURL(beside.resolve('@electric-sql/pglite')).href)
const db = await PGlite.create()
const server = new PGLiteSocketServer({ db, host: '127.0.0.1', port: 0, maxConnections: 20 })
server.addEventListener('listening', ({ detail }) => console.log(detail.port))
await server.start()
