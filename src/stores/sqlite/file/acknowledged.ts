// Checks that the log in a file reaches the acknowledged mark. It uses a connection that cannot write: closing that connection
// leaves the write-ahead log unchanged.

import type { Hash } from '../../../core/store/ports.ts'
import { Log } from '../log/log.ts'
import { readVersion } from '../schema.ts'
import type { AckMark, Mark } from './ack-mark.ts'
import type { Driver } from './driver.ts'
import { connectToRead } from './reading-connection.ts'

/** Throws STORE_DAMAGED if it does not; with `isPutBack`, the mark is set aside instead. */
export function checkAcknowledged(
  driver: Driver,
  file: string,
  hash: Hash,
  ack: AckMark,
  mark: Mark | null,
  isPutBack = false,
): void {
  const { connection, close } = connectToRead(driver, file)
  try {
    connection.snapshot(() => {
      const log = readVersion(connection) === 0 ? null : new Log(connection, hash)
      if (isPutBack) ack.accept(mark, log)
      else ack.check(mark, log)
    })
  } finally {
    close()
  }
}
