// The two additional verbs of sccache's WebDAV. Folders are only names: every folder exists, and creating one changes
// nothing.

import type { Call, Route } from '../../route.ts'
import { foundAbout, nothing, scopesOf } from './artifact-requests.ts'
import { spotOf } from './plain.ts'

const common = { tag: 'caches', answer: { type: 'string' } } as const
const deep = { ...common, path: '/cache/{space}/{key}', isDeep: true } as const
const folder = { ...common, path: '/cache/{space}/' } as const

export const webdavRoutes: readonly Route[] = [
  ...[deep, folder].map(
    (where, i): Route => ({
      ...where,
      method: 'PROPFIND',
      id: i === 0 ? 'davFind' : 'davFindSpace',
      summary: 'WebDAV: the entries under a path',
      role: 'read',
      status: 207,
      answerType: 'application/xml',
      call: find,
    }),
  ),
  ...[deep, folder].map(
    (where, i): Route => ({
      ...where,
      method: 'MKCOL',
      id: i === 0 ? 'davMake' : 'davMakeSpace',
      summary: 'WebDAV: create a folder, which changes nothing',
      role: 'write',
      status: 201,
      answerType: 'text/plain',
      call(call) {
        scopesOf(call)
        return ''
      },
    }),
  ),
]

async function find(call: Call): Promise<string> {
  const pathname = call.request.path
  scopesOf(call)
  if (pathname.endsWith('/')) return answer(pathname, '<D:resourcetype><D:collection/></D:resourcetype>', 0)
  const meta = await foundAbout(call, spotOf(call))
  if (!meta) throw nothing()
  const size = `<D:resourcetype/><D:getcontentlength>${meta.size}</D:getcontentlength>`
  return answer(pathname, size, meta.at)
}

function answer(path: string, properties: string, at: number): string {
  const href = path.replaceAll(/[&<>"]/g, (sign) => encodeURIComponent(sign))
  const modified = `<D:getlastmodified>${new Date(at).toUTCString()}</D:getlastmodified>`
  return `<?xml version="1.0" encoding="utf-8"?><D:multistatus xmlns:D="DAV:"><D:response><D:href>${href}</D:href><D:propstat><D:prop>${properties}${modified}</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>`
}
