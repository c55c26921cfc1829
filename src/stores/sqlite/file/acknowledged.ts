// Whether the log in a file reaches as far as somebody was told. Through a connection that cannot write: closing it leaves the
// write-ahead log as it is.

import type { Hash } from '../../../core/store/ports.ts'
import { Log } from '../log/log.ts'
import { readVersion } from '../schema.ts'
import type { AckMark, Mark } from './ack-mark.ts'
import type { Driver } from './driver.ts'
import { connectToRead } from './reading-connection.ts'

/** Throws STORE_DAMAGED where it does not. */
export function checkAcknowledged(driver: Driver, file: string, hash: Hash, ack: AckMark, mark: Mark | null): void {
  const { connection, close } = connectToRead(driver, file)
  try {
    connection.snapshot(() => ack.check(mark, readVersion(connection) === 0 ? null : new Log(connection, hash)))
  } finally {
    close()
  }
}
