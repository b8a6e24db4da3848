// Pages whose server is asked nothing: /metrics and /cache are documents, those that server and page agree on or changed ones.
export { fixture } from "../unit/fixtures.mjs";

/** Answers /metrics and /cache of a page. @param {{metrics: object, list?: object}} documents may be changed later */
export async function serveDocuments(page, documents) {
  await page.route("**/metrics*", (route) => route.fulfill({ json: documents.metrics }));
  await page.route("**/cache", (route) => route.fulfill(documents.list ? { json: documents.list } : { status: 404, json: {} }));
}
