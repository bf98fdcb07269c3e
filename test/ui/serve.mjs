// Serves the page with made-up data, to look at: npm run serve -- [small|large|empty|forbidden|hostile]
import * as data from './data.mjs';
import { start } from './fixture.mjs';

const scenario = process.argv[2] ?? 'small';
const fixture = await start(data[scenario](), { port: Number(process.env.PORT ?? 0) });
if (scenario === 'large' || scenario === 'small') fixture.churn();
console.log(`Berth's page is at ${fixture.url}\nCtrl-C ends it.`);
