// The part of the package `aws4fetch` that this store uses: it signs requests. It is optional, and imported when an s3
// address is opened.

import { RepriseError } from '../../core/errors.ts'

export interface Signer {
  sign(): Promise<{ readonly headers: Headers }>
}

export interface SigningDriver {
  readonly AwsV4Signer: new (request: {
    readonly method: string
    readonly url: string
    readonly headers: Readonly<Record<string, string>>
    readonly accessKeyId: string
    readonly secretAccessKey: string
    readonly sessionToken?: string
    readonly service: string
    readonly region: string
    readonly datetime?: string
    readonly cache?: Map<string, ArrayBuffer>
  }) => Signer
}

export async function loadSigner(): Promise<SigningDriver> {
  try {
    return (await import('aws4fetch')) as unknown as SigningDriver
  } catch (cause) {
    const what = 'an s3 address needs the package aws4fetch: npm install aws4fetch'
    throw new RepriseError('DRIVER_MISSING', what, {}, cause)
  }
}
