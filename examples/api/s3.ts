// Examples of `reprise/s3`. They need a bucket, and are compiled: test/s3 runs the same on a real server.

import { s3Blobs } from 'reprise/s3'
import { example } from './example.ts'

export default [
  example(
    ['s3Blobs'],
    async () => {
      // Keys come from the environment, from ~/.aws, or from the role of the container or machine.
      const chunks = await s3Blobs('s3://backups/app/default?region=eu-west-1')
      const rows = await chunks.list(null, 1000)
      return rows.reduce((sum, { bytes }) => sum + bytes, 0)
    },
    'compiled',
  ),
]
